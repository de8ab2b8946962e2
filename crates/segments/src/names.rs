//! Names of numbered files.

/// The form of the names of one kind of numbered files.
#[derive(Clone, Copy, Debug)]
pub struct NameForm {
    /// The part in front of the number.
    pub prefix: &'static str,
    /// The notation of the number.
    pub digits: Digits,
    /// The part behind the number.
    pub suffix: &'static str,
}

/// The notation of a number in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// Decimal digits, at least so many.
    Decimal(usize),
    /// Hexadecimal digits, at least so many.
    Hexadecimal(usize),
}

impl NameForm {
    /// The form of names that begin with the number.
    #[must_use]
    pub const fn new(digits: Digits, suffix: &'static str) -> Self {
        Self { prefix: "", digits, suffix }
    }

    /// The name of the file with a number.
    #[must_use]
    pub fn name(&self, number: u64) -> String {
        let Self { prefix, suffix, .. } = self;
        match self.digits {
            Digits::Decimal(width) => format!("{prefix}{number:0width$}{suffix}"),
            Digits::Hexadecimal(width) => format!("{prefix}{number:0width$x}{suffix}"),
        }
    }

    /// The name with the directory in front.
    #[must_use]
    pub fn path(&self, dir: &str, number: u64) -> String {
        format!("{dir}/{}", self.name(number))
    }

    /// The number of the file with this name, if it is one of the form.
    #[must_use]
    pub fn parse(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(self.prefix)?.strip_suffix(self.suffix)?;
        let radix = match self.digits {
            Digits::Decimal(_) => 10,
            Digits::Hexadecimal(_) => 16,
        };
        let number = u64::from_str_radix(digits, radix).ok()?;
        (self.name(number) == name).then_some(number)
    }

    /// The numbers of files of the form among `names`, rising.
    #[must_use]
    pub fn numbers(&self, names: &[String]) -> Vec<u64> {
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| self.parse(name)).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_files_by_their_names() {
        let forms = [
            NameForm::new(Digits::Decimal(20), ".segment"),
            NameForm { prefix: "spare-", ..NameForm::new(Digits::Decimal(20), ".wal") },
            NameForm::new(Digits::Hexadecimal(8), ".blob"),
            NameForm::new(Digits::Decimal(1), ".idx"),
        ];
        for form in forms {
            for number in [0, 17, 1 << 31, u64::MAX] {
                assert_eq!(form.parse(&form.name(number)), Some(number));
            }
        }
        let [segment, spare, blob, idx] = forms;
        assert_eq!(spare.path("wal", 7), "wal/spare-00000000000000000007.wal");
        assert_eq!(blob.numbers(&["000000ff.blob".into(), "00000002.blob".into()]), [2, 255]);
        for other in ["1.segment", "0000000000000000000x.segment", "00000000000000000001.cut", ""] {
            assert_eq!(segment.parse(other), None);
        }
        assert_eq!(segment.parse("99999999999999999999.segment"), None, "no u64");
        assert_eq!(segment.parse("+0000000000000000001.segment"), None);
        assert_eq!((blob.parse("2.blob"), idx.parse("017.idx")), (None, None));
    }
}

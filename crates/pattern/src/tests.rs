use super::*;
use proptest::prelude::*;

fn perl(text: &str) -> Pattern {
    Pattern::perl(text, &Limits::NAMES).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Holds an expression against texts that it is found in, and those that it is not.
fn check(text: &str, found: &[&str], not: &[&str]) {
    let pattern = perl(text);
    for input in found {
        assert!(pattern.matches(input.as_bytes()), "{text} is found in {input:?}");
    }
    for input in not {
        assert!(!pattern.matches(input.as_bytes()), "{text} is not found in {input:?}");
    }
    assert!(!pattern.tells_now(), "{text}");
}

fn is_linear(text: &str) -> bool {
    matches!(perl(text).0.engine, Engine::Linear(_))
}

fn refused(text: &str) -> String {
    let error = Pattern::perl(text, &Limits::NAMES).unwrap_err().to_string();
    assert!(!error.contains('\n') && !error.is_empty(), "{text}: {error}");
    error
}

#[test]
fn is_found_anywhere_unless_it_is_anchored() {
    check("b", &["abc"], &["ac"]);
    check("^a", &["abc"], &["ba"]);
    check("^(amq\\.gen.*|amq\\.default)$", &["amq.gen-x", "amq.default"], &["amq.defaults"]);
    check("", &["a", ""], &[]);
    check(".*", &["anything\n"], &[]);
    check("^$", &[""], &["a"]);
    check("^a.c$", &["abc", "aéc"], &["a\nc"]);
    assert!(perl(".*").matches(&[0xff]));
}

#[test]
fn what_perl_takes_literally_is_literal() {
    check("^{a}$", &["{a}"], &[]);
    check("^a{2}$", &["aa"], &["a{2}"]);
    check("^a{1,}$", &["a", "aaa"], &[""]);
    check("^a{,2}$", &["a{,2}"], &["aa"]);
    check("^[[a]+$", &["[a["], &["b"]);
    check("^[a&&b]+$", &["a&b"], &["c"]);
    check("^[a~~b&&c-]+$", &["a~b-&"], &["d"]);
    check("^[]a]+$", &["]a"], &["b"]);
    check("^[^]a]+$", &["bc"], &["]"]);
    check("^\\{\\[$", &["{["], &[]);
    check("^a]b}$", &["a]b}"], &[]);
    check("^[\\w-z]+$", &["a-z"], &["+"]);
    check("^[a-\\d]+$", &["a-1"], &["b"]);
}

#[test]
fn escapes_of_characters() {
    check("^\\x{6f}\\x6f\\o{157}\\157$", &["oooo"], &["x"]);
    check("^\\x{20ac}$", &["€"], &["x"]);
    check("^\\t\\n\\r\\f\\e\\a\\0$", &["\t\n\r\u{c}\u{1b}\u{7}\0"], &[]);
    check("^\\cA$", &["\u{1}"], &["A"]);
    check("^\\.\\-\\/\\@\\ $", &[".-/@ "], &[]);
    check("^[\\x41-\\x{43}\\b\\103]+$", &["ABC\u{8}"], &["D"]);
    check("^\\Qa.b*\\E+$", &["a.b*", "a.b**"], &["axb"]);
    check("^\\Qa|b", &["a|b"], &["a"]);
    check("^[\\Q^]\\E]+$", &["^]"], &["a"]);
}

#[test]
fn classes_are_those_of_ascii_and_properties_those_of_unicode() {
    check("^\\w+$", &["aZ_9"], &["é", "-"]);
    check("^\\W$", &["é", "-"], &["a"]);
    check("^\\d\\D$", &["1a"], &["11", "٣a"]);
    check("^\\s\\S$", &[" a", "\u{b}a"], &["ab"]);
    check("^[\\W\\d]+$", &["-1é"], &["a"]);
    check("^\\h\\H\\v\\V\\N$", &["\ta\nbc"], &["aabbc"]);
    check("^a\\Rb$", &["a\r\nb", "a\nb", "a\u{2028}b"], &["ab"]);
    check("^[[:digit:][:^alnum:]]+$", &["12-"], &["a"]);
    check("^[[:alpha:]-z]+$", &["a-z"], &["1"]);
    check("^\\p{Ll}+$", &["aé"], &["A"]);
    check("^\\pL\\p{^Ll}$", &["aA"], &["1A", "aa"]);
    check("^\\p{L&}\\p{Xwd}\\p{Any}$", &["a_-"], &["1_-"]);
    check("^\\p{Greek}$", &["α"], &["a"]);
    check("^[^\\p{Lu}x]+$", &["ab1"], &["A", "x"]);
    check("\\bab\\b", &["x ab", "é-ab"], &["cab"]);
    check("b\\Bc", &["abc"], &["b c"]);
}

#[test]
fn flags_and_groups() {
    check("(?i)ABC", &["abc", "aBc"], &["ab"]);
    check("^(?i:a)b$", &["Ab"], &["AB"]);
    check("^a(?i)b|c$", &["aB", "C"], &["AB"]);
    check("^(?i)[a-c]É[[:upper:]]$", &["Béx"], &["dÉx"]);
    check("(?i)^[à-é]$", &["Ç"], &["a"]);
    check("^(?x) a b # comment [ \n c [ ] $", &["abc "], &["ab c"]);
    check("^(?s).$", &["\n"], &[]);
    check("(?m)^b$", &["a\nb\nc"], &["ab"]);
    check("^a(?#not (this)b$", &["ab"], &[]);
    check("^(?<n>a)(?P<m>b)(?'o'c)$", &["abc"], &[]);
    check("(?U)^a+$", &["aaa"], &[]);
    check("^(?^:a)$", &["a"], &["A"]);
    let ignoring = Pattern::perl_ignoring_case("^ab$", &Limits::NAMES).unwrap();
    assert!(ignoring.matches(b"AB") && !perl("^ab$").matches(b"AB"));
}

#[test]
fn looks_around() {
    check("^(?!amq\\.).*", &["orders", "amq", "xamq."], &["amq.gen", "amq."]);
    check("^(?!amq\\.|.*\\.dlq$).*", &["orders"], &["amq.x", "orders.dlq"]);
    check("^(?=.*\\d)(?=.*[a-z]).{4,}$", &["abc1"], &["abcd", "123a5!".get(..3).unwrap()]);
    check("^(.*(?<!error))?$", &["", "log.info"], &["log.error"]);
    check("(?<=a|bc)d", &["ad", "bcd"], &["cd", "d"]);
    check("(?<=^|,)x", &["x", "a,x"], &["ax"]);
    check("^a\\Z", &["a", "a\n"], &["a\n\n", "ab"]);
    check("^(?=(a+))\\1b", &["aab"], &["aac"]);
    check("^a(?!b)", &["ac", "a"], &["ab"]);
}

#[test]
fn refers_to_groups() {
    check("^(a)\\1$", &["aa"], &["ab"]);
    check("^(.+)-\\g{1}-\\g{-1}\\k<x>?(?<x>)$", &["ab-ab-ab"], &["ab-ab-ba"]);
    check("^(?<n>a|b)\\k{n}(?P=n)\\k'n'$", &["aaaa", "bbbb"], &["aaab"]);
    check("^(?i)(a)\\1$", &["aA"], &["ab"]);
    check("^(?:(a)|b)*\\1$", &["abaa", "aa"], &["b"]);
    check("^(a)?(?(1)b|c)$", &["ab", "c"], &["b", "ac"]);
    check("^(?<q>')?x(?(<q>)')$", &["x", "'x'"], &["'x"]);
    check("^(?(?=a)ab|cd)$", &["ab", "cd"], &["ad"]);
    check("^(a\\1?){4}$", &["aaaaaa"], &["aab"]);
}

#[test]
fn gives_nothing_back_from_atomic_groups_and_possessive_quantifiers() {
    check("^(?>a+)b$", &["aab"], &["aac"]);
    check("^(?>a+)ab$", &[], &["aab"]);
    check("^a++b$", &["aab"], &[]);
    check("^a*+a$", &[], &["aaa"]);
    check("^a?+a$", &["aa"], &["a"]);
    check("^a{1,2}+a$", &["aaa"], &["aa"]);
    check("^(?>a|ab)c$", &["ac"], &["abc"]);
    check("^(?:a?)*+b$", &["aab", "b"], &["c"]);
}

#[test]
fn only_what_the_linear_engine_does_not_know_is_tried_by_steps() {
    for text in ["^a(b|c)*[^d]{2,}?$", "\\bx\\B", "(?<n>a)", "(?i)\\p{Lu}", "^(?m:^a$)"] {
        assert!(is_linear(text), "{text}");
    }
    for text in ["(?=a)", "(a)\\1", "(?>a)", "a++", "(a)?(?(1)b)", "a\\Z"] {
        assert!(!is_linear(text), "{text}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line() {
    for text in [
        "(",
        ")",
        "[",
        "[a",
        "*",
        "a**+*?*",
        "(?<n",
        "(?<1>a)",
        "(?<n>a)(?<n>b)",
        "\\",
        "\\p{",
        "\\p{Nix}",
        "[b-a]",
        "[[:nix:]]",
        "a{3,2}",
        "a{70000}",
        "\\2(a)",
        "\\k<n>",
        "(?R)",
        "(?1)",
        "(?&n)",
        "\\g<1>",
        "(*SKIP)a",
        "(?|a)",
        "(?z)",
        "\\y",
        "\\X",
        "\\x{110000}",
        "(?(1)a|b|c)(x)",
        "(?(?=(?(?=a)b))c)",
        "a{1000}{1000}{1000}",
        "(?=a{1000}{1000})",
        "(?=)(a?){60000}",
    ] {
        refused(text);
    }
    assert_eq!(refused("("), "unclosed group");
    assert_eq!(refused(&"a".repeat(4097)), "longer than 4096 bytes");
    refused(&"(".repeat(2_000));
    assert!(Pattern::linear("(?=a)", &Limits::FILTER).is_err());
}

#[test]
fn what_is_dear_to_compile_is_refused_before_it_is_compiled() {
    let ignoring_case = format!("(?i){}", "\\pL".repeat(660));
    assert!(matches!(Pattern::perl(&ignoring_case, &Limits::NAMES), Err(PatternError::TooDear)));
    assert_eq!(Pattern::perl("\\pL{9}", &Limits::NAMES), Err(PatternError::TooLarge));
    assert!(Pattern::perl("\\pL{9}", &Limits::STORED).is_ok());
    // Also from what was compiled lately.
    assert_eq!(Pattern::perl("\\pL{9}", &Limits::NAMES), Err(PatternError::TooLarge));
    for text in [
        ignoring_case.clone(),
        format!("(?=a){ignoring_case}").replace("\\pL", "[^\\pL]"),
        "(?i)\\p{Any}\\p{Any}".to_owned(),
        format!("(?i){}", "[\\0-\\x{10ffff}]".repeat(40)),
        "(?i)[[^a][^b]]".to_owned(),
        "(?i)[\\PL&&\\W]".to_owned(),
        format!("(?i){}a{}", "[".repeat(40), "]".repeat(40)).replace('a', "^a"),
    ] {
        let refused = Pattern::linear(&text, &Limits::FILTER).map(|(_, cost_us)| cost_us);
        assert!(refused.is_err(), "{text}: {refused:?}");
    }
    let distinct: String = (0..60).map(|n| format!("(?=[\\pL{}])", char::from(b'0' + n))).collect();
    assert_eq!(Pattern::perl(&distinct, &Limits::NAMES), Err(PatternError::TooDear));
    for text in ["(?i)\\w+@[\\w.-]+", "\\p{Lu}\\p{Ll}+", "(?i)[^a-z]{2,9}"] {
        assert!(Pattern::linear(text, &Limits::FILTER).is_ok(), "{text}");
        assert!(Pattern::perl(text, &Limits::NAMES).is_ok(), "{text}");
    }
}

#[test]
fn a_match_that_takes_too_many_steps_is_none_and_says_so() {
    for text in ["^(a+)+\\1$", "^(?=(a|aa)+$)b", "(?<!(a|aa)*b)c", "^(?>(a|b|ab)*)(a*)*\\2c"] {
        let (pattern, input) = (perl(text), "a".repeat(255) + "c");
        if pattern.find(input.as_bytes()) == Err(OutOfSteps) {
            assert!(!pattern.matches(input.as_bytes()));
            assert!(pattern.tells_now() && !pattern.tells_now());
        }
    }
    assert_eq!(perl("^(a+)+\\1b$").find(&[b'a'; 255]), Err(OutOfSteps));
}

/// Parts that mean the same in PCRE's documentation and in that of the linear engine.
fn common() -> impl Strategy<Value = String> {
    let atom = prop::sample::select(vec![
        "a",
        "b",
        "c",
        ".",
        "[ab]",
        "[^a]",
        "\\.",
        "^",
        "$",
        "\\A",
        "\\z",
        "(?:)",
        "[[:alpha:]]",
        "é",
    ]);
    let leaf = atom.prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 4, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..4);
        let quantifier =
            prop::sample::select(vec!["*", "+", "?", "*?", "+?", "{2}", "{0,2}", "{1,}"]);
        prop_oneof![
            some.clone().prop_map(|all| all.concat()),
            some.prop_map(|all| format!("(?:{})", all.join("|"))),
            inner.clone().prop_map(|one| format!("({one})")),
            (inner.clone(), quantifier).prop_map(|(one, by)| format!("(?:{one}){by}")),
            inner.prop_map(|one| format!("(?i:{one})")),
        ]
    })
}

#[test]
fn a_byte_of_no_character_is_one_that_a_look_around_goes_over() {
    let no_secret = perl("^(?!.*secret)");
    assert!(no_secret.matches(b"public.x") && no_secret.matches(b"\xff.x"));
    assert!(!no_secret.matches(b"\xff.secret.x") && !no_secret.matches(b"a\xc3secret"));
}

proptest! {
    /// The tree written for the linear engine, and the machine, say what that engine says of the text.
    #[test]
    fn both_engines_agree_where_both_can(text in common(), input in "[abcABé.\n]{0,8}") {
        let Ok(expected) = regex::bytes::Regex::new(&text) else { return Ok(()) };
        let expected = expected.is_match(input.as_bytes());
        prop_assert_eq!(perl(&text).find(input.as_bytes()), Ok(expected));
        let by_steps = format!("(?!)|{text}");
        prop_assert!(!is_linear(&by_steps));
        if let Ok(found) = perl(&by_steps).find(input.as_bytes()) {
            prop_assert_eq!(found, expected);
        }
    }

    /// Any text that is set is taken or refused, and matched or not: nothing panics, nothing takes long.
    #[test]
    fn any_text_is_compiled_and_matched_within_budget(
        text in "([ab(){}|*+?.^$]|\\[|\\]|\\\\[1-9a-zA-Z{}]|\\(\\?[=!<>:i(#P']|[0-9,:-]){0,24}",
        input in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        if let Ok(pattern) = Pattern::perl(&text, &Limits::NAMES) {
            prop_assert!(pattern.find(&input).is_ok_and(|_| true) || !is_linear(&text));
            prop_assert!(pattern.0.program_bytes <= Limits::NAMES.program_bytes_max);
        }
    }

    /// A quoted text is found in itself, and nowhere else.
    #[test]
    fn a_quoted_text_means_itself(text in any::<String>(), other in any::<String>()) {
        let pattern = Pattern::perl(&format!("^{}$", quote(&text)), &Limits::STORED).unwrap();
        prop_assert!(pattern.matches(text.as_bytes()));
        prop_assert_eq!(pattern.matches(other.as_bytes()), text == other);
    }
}

//! Definitions as a whole.

use crate::document;
use crate::options::{flag, text};
use crate::verb::Banner::Made;
use crate::verb::{Action, Input, Section, VERB, Verb, verbs};

const DEFINITIONS: Verb = Verb { section: Section::Definitions, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    DEFINITIONS "export_definitions <file_path | \"-\"> [--format json] [--vhost <vhost>]",
        "Exports definitions to a file or standard output":
        params: &["file"], switches: &[text("format", None), text("vhost", Some('p'))],
        check: Some(document::check_export), banner: Made(document::export_banner),
        action: Action::Ask("GET /definitions/{vhost}", document::exported);
    DEFINITIONS "import_definitions [<file_path> | \"-\"] [--format json] [--skip-if-unchanged] \
        [--strict] [--vhost <vhost>]",
        "Imports definitions from a file or standard input; with --strict, skipped definitions \
            make the exit code 1":
        params: &["file?"],
        switches: &[
            text("format", None),
            flag("skip-if-unchanged", None),
            flag("strict", None),
            text("vhost", Some('p')),
        ],
        input: Some(Input::Document), check: Some(document::check_import),
        banner: Made(document::import_banner),
        action: Action::Ask("POST /definitions/{vhost}", document::imported);
};

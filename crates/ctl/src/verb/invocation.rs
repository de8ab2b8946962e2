//! An invocation of a verb: arguments checked, defaults filled in.

use super::{Columns, Tool, Verb};
use crate::data_dir::default_data_dir;
use crate::environment;
use crate::failure::{Failure, Invalid, code};
use crate::options::{self, Parsed, Setting};
use crate::output::{Format, ListingColumn};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Parameters that are JSON.
const JSON: [&str; 2] = ["definition", "value"];

/// Everything a verb needs to know.
pub(crate) struct Invocation {
    pub(crate) tool: Tool,
    pub(crate) verb: &'static Verb,
    /// Parameters by name; missing optional ones are absent.
    pub(crate) params: Map<String, Value>,
    /// Columns asked for, without repetitions.
    pub(crate) columns: Vec<ListingColumn>,
    pub(crate) settings: BTreeMap<&'static str, Setting>,
    pub(crate) address: NodeAddress,
    pub(crate) format: Format,
    /// Longest wait for an answer; `None` waits for ever.
    pub(crate) timeout: Option<Duration>,
}

/// The node that a command is sent to.
#[derive(Clone, Debug)]
pub(crate) struct NodeAddress {
    /// The node's name as it is shown.
    pub(crate) node: String,
    /// Whether the operator named the node: then no other node may do what is asked.
    pub(crate) is_named: bool,
    /// The node's data directory, where the control socket is.
    pub(crate) data_dir: PathBuf,
    /// Whether the data directory is the default: the node may have another one.
    pub(crate) is_guessed: bool,
}

impl Invocation {
    /// Checks `given` (the whole command line without the tool's name) against the verb.
    pub(crate) fn new(tool: &Tool, verb: &'static Verb, given: &[String]) -> Result<Self, Invalid> {
        let Parsed { args, settings, invalid } = options::parse(given, verb.switches);
        if !invalid.is_empty() {
            return Err(Invalid::BadOptions(invalid));
        }
        let args: Vec<String> = args.into_iter().skip(1).collect();
        let format = match settings.get("formatter") {
            Some(Setting::Text(name)) => Format::of_name(&name.to_ascii_lowercase())
                .ok_or_else(|| Invalid::Other(format!("unsupported formatter: {name}")))?,
            Some(Setting::Flag(_) | Setting::Number(_)) | None => Format::Default,
        };
        let mut this = Self {
            tool: tool.clone(),
            verb,
            params: Map::new(),
            columns: Vec::new(),
            address: NodeAddress::new(&settings),
            timeout: timeout(verb, &settings),
            settings,
            format,
        };
        if this.flag("help") {
            return Ok(this);
        }
        match verb.columns() {
            Some(columns) if this.flag("verbose") => {
                this.columns = ListingColumn::all(columns.known).collect();
            }
            Some(columns) => this.columns = choose_columns(&args, columns)?,
            None => this.params = name_params(args, verb.params)?,
        }
        if let Some(check) = verb.check {
            check(&this)?;
        }
        Ok(this)
    }

    /// A parameter's text; empty when absent.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The words of a parameter that takes several.
    pub(crate) fn args(&self, name: &str) -> impl Iterator<Item = &str> {
        let list = self.params.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Refuses a parameter that is no number above 0.
    pub(crate) fn check_positive(&self, param: &str) -> Result<(), Invalid> {
        let is_positive = self.param(param).parse::<u64>().is_ok_and(|number| number > 0);
        let refused = || Invalid::BadArgument("Argument must be a positive integer".to_owned());
        is_positive.then_some(()).ok_or_else(refused)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.settings.get(name) == Some(&Setting::Flag(true))
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.settings.get(name)? {
            Setting::Number(number) => Some(*number),
            Setting::Flag(_) | Setting::Text(_) => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.settings.get(name)? {
            Setting::Text(text) => Some(text),
            Setting::Flag(_) | Setting::Number(_) => None,
        }
    }

    pub(crate) fn vhost(&self) -> &str {
        self.text("vhost").unwrap_or("/")
    }

    pub(crate) fn node(&self) -> &str {
        &self.address.node
    }

    /// Whether informational lines are left out.
    pub(crate) fn output_less(&self) -> bool {
        self.flag("quiet") || self.flag("silent")
    }

    /// Whether listings begin with the names of the columns.
    pub(crate) fn headers(&self) -> bool {
        !self.flag("silent") && self.settings.get("table-headers") != Some(&Setting::Flag(false))
    }

    /// The fields of the request to the node. COMPAT: RabbitMQ tells no more about malformed JSON.
    pub(crate) fn request(&self) -> Result<Map<String, Value>, Failure> {
        let mut request = self.params.clone();
        request.remove("file");
        for name in JSON {
            let Some(value) = request.get_mut(name) else { continue };
            *value = serde_json::from_str(value.as_str().unwrap_or_default()).map_err(|_| {
                Failure::error(code::UNAVAILABLE, "JSON decoding error. Reason: badarg")
            })?;
        }
        if self.verb.vhost && !self.flag("global") {
            request.insert("vhost".to_owned(), self.vhost().into());
        }
        if self.verb.columns().is_some() {
            let columns = self.columns.iter().map(|column| column.source);
            request.insert("columns".to_owned(), columns.collect::<Vec<_>>().into());
        }
        for switch in self.verb.switches {
            let value = match self.settings.get(switch.name) {
                Some(Setting::Flag(flag)) => Value::from(*flag),
                Some(Setting::Number(number)) => Value::from(*number),
                Some(Setting::Text(text)) => Value::from(text.as_str()),
                None => continue,
            };
            request.insert(switch.name.replace('-', "_"), value);
        }
        Ok(request)
    }
}

impl NodeAddress {
    fn new(settings: &BTreeMap<&'static str, Setting>) -> Self {
        let given = |name| match settings.get(name) {
            Some(Setting::Text(text)) => Some(text.clone()),
            Some(Setting::Flag(_) | Setting::Number(_)) | None => None,
        };
        let variables = &environment::of_process;
        let long = settings.get("longnames") == Some(&Setting::Flag(true))
            || environment::has_long_names(variables);
        let node = match given("node") {
            Some(name) => environment::complete(&name, long),
            None => environment::node_name(variables),
        };
        let data_dir = given("data-dir").map(PathBuf::from);
        let data_dir = data_dir.or_else(|| environment::data_dir(variables, &node));
        let is_named = given("node").is_some() || variables("RABBITMQ_NODENAME").is_some();
        let is_guessed = data_dir.is_none();
        let data_dir = data_dir.unwrap_or_else(default_data_dir);
        Self { node, is_named, data_dir, is_guessed }
    }
}

fn timeout(verb: &Verb, settings: &BTreeMap<&'static str, Setting>) -> Option<Duration> {
    let given_ms = match settings.get("timeout") {
        Some(Setting::Number(seconds)) => u64::try_from(*seconds).ok().map(|s| s * 1000),
        Some(Setting::Flag(_) | Setting::Text(_)) | None => None,
    };
    given_ms.or(verb.timeout_ms).map(Duration::from_millis)
}

/// Chooses the columns that `args` name; a word may hold several names with commas between them.
fn choose_columns(args: &[String], columns: Columns) -> Result<Vec<ListingColumn>, Invalid> {
    let known: Vec<ListingColumn> = ListingColumn::all(columns.known).collect();
    let find = |name: &str| known.iter().copied().find(|column| column.title == name);
    if args.is_empty() {
        return Ok(ListingColumn::all(columns.shown)
            .filter_map(|column| find(column.title))
            .collect());
    }
    let mut chosen: Vec<&str> = Vec::new();
    for name in args.iter().flat_map(|word| word.split(',')).map(str::trim) {
        if !name.is_empty() && !chosen.contains(&name) {
            chosen.push(name);
        }
    }
    let unknown = chosen.iter().filter(|name| find(name).is_none()).map(|name| (*name).to_owned());
    let mut unknown: Vec<String> = unknown.collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        return Err(Invalid::BadColumns(unknown));
    }
    Ok(chosen.into_iter().filter_map(find).collect())
}

fn name_params(args: Vec<String>, params: &[&str]) -> Result<Map<String, Value>, Invalid> {
    let mut named = Map::new();
    let mut args = args.into_iter();
    for &param in params {
        if let Some(name) = param.strip_suffix('*') {
            named.insert(name.to_owned(), args.by_ref().collect::<Vec<_>>().into());
            continue;
        }
        match (args.next(), param.strip_suffix('?')) {
            (Some(word), name) => {
                named.insert(name.unwrap_or(param).to_owned(), word.into());
            }
            (None, Some(_)) => {}
            (None, None) => return Err(Invalid::TooFew),
        }
    }
    if args.next().is_some() { Err(Invalid::TooMany) } else { Ok(named) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::TABLES;
    use serde_json::json;

    fn invocation(line: &str) -> Result<Invocation, Invalid> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let name = &options::parse(&args, &[]).args[0];
        let tool = Tool::new("rabbitmqctl", TABLES);
        Invocation::new(&tool, tool.find(name).unwrap(), &args)
    }

    fn request(line: &str) -> Value {
        let invocation = invocation(line).map_err(|invalid| invalid.to_string()).unwrap();
        Value::Object(invocation.request().unwrap_or_default())
    }

    #[test]
    fn requests_name_their_parameters() {
        assert_eq!(
            request("set_permissions -p v1 alice ^a .* x"),
            json!({"user": "alice", "configure": "^a", "write": ".*", "read": "x", "vhost": "v1"})
        );
        assert_eq!(
            request("set_user_tags alice a b"),
            json!({"user": "alice", "tags": ["a", "b"]})
        );
        assert_eq!(
            request("set_policy p ^q {} --priority 3 --apply-to queues"),
            json!({"name": "p", "pattern": "^q", "definition": {}, "priority": 3,
                "apply_to": "queues", "vhost": "/"})
        );
        assert_eq!(
            request("delete_queue q -e"),
            json!({"name": "q", "vhost": "/", "if_empty": true})
        );
    }

    #[test]
    fn columns_are_split_and_defaulted() {
        let titles = |it: Invocation| it.columns.iter().map(|it| it.title).collect::<Vec<_>>();
        assert_eq!(titles(invocation("list_queues").unwrap()), ["name", "messages"]);
        let invocation = invocation("list_queues name,consumers state name").unwrap();
        assert_eq!(titles(invocation), ["name", "consumers", "state"]);
    }

    #[test]
    fn arity_and_columns_are_checked() {
        let told = |line: &str| {
            let invalid = invocation(line).err().unwrap();
            (invalid.code(), invalid.to_string())
        };
        assert_eq!(told("set_permissions a"), (64, "not enough arguments.".to_owned()));
        assert_eq!(told("list_users extra"), (64, "too many arguments.".to_owned()));
        assert_eq!(
            told("list_queues zz name bogus"),
            (64, "Info key(s) bogus,zz are not supported".to_owned())
        );
        assert_eq!(
            told("list_queues --bogus"),
            (64, "Invalid options for this command:\n--bogus : ".to_owned())
        );
        assert_eq!(
            told("check_port_listener abc"),
            (65, "Bad argument: Argument must be a positive integer".to_owned())
        );
    }
}

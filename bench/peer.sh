#!/usr/bin/env bash
# A peer for `leveret bench`: RabbitMQ from a Debian package, LavinMQ from a checkout; for figures of their own load
# tools also NATS and Redis from PATH.
#
#   bench/peer.sh start [PORT] [--release 4|3] [--plugins NAME,...] [--set 'KEY = VALUE']...
#                                install it if it is missing (as root), start a node of its own on
#                                127.0.0.1:PORT (5673), print the --target option for `leveret bench`
#   bench/peer.sh start [PORT] --broker lavinmq --checkout DIR
#                                the same with LavinMQ: DIR/bin/lavinmq, which `shards build --release` makes there
#                                if it is missing
#   bench/peer.sh start [PORT] --broker nats|redis [--sync]
#                                NATS with JetStream on file, Redis with an append-only file; --sync: each write is on
#                                the disk before it is confirmed. Prints what their own load tools need
#   bench/peer.sh stop [PORT]    stop it and its port mapper (epmd), and delete its data
#
# Release 4 is that of Debian's testing (4.3 in 2026), by debootstrap in a directory of its own, PEER_ROOT
# (~/.cache/leveret-peer/testing), which stays; 3 is the package of the system. Without --release it is 4 if
# that can be had, otherwise 3.
#
# Plugins (none) may be named without the rabbitmq_ in front: `--plugins management,top` is what the paper of the
# scenario confirm-on ran. The management plugin listens on 127.0.0.1:PORT + 30000, that of streams
# on 127.0.0.1:PORT + 25000. --set adds a line to its rabbitmq.conf.
#
# The node has its own name (PEER_NODENAME, rabbit-PORT@localhost), an epmd of its own on PORT + 10000, and keeps
# everything in PEER_DIR/PORT (~/.cache/leveret-peer/PORT), with release 4 in PEER_ROOT/peer/PORT; a node the
# system runs is not touched.
set -euo pipefail

server=/usr/lib/rabbitmq/bin/rabbitmq-server
command=${1:-}
port=5673
release=
plugins=
broker=rabbitmq
checkout=
sync=
settings=()
[ $# = 0 ] || shift
while [ $# -gt 0 ]; do
    case $1 in
    --plugins) plugins=${2:?--plugins needs names} && shift ;;
    --plugins=*) plugins=${1#*=} ;;
    --broker) broker=${2:?--broker needs a name} && shift ;;
    --checkout) checkout=${2:?--checkout needs a folder} && shift ;;
    --sync) sync=1 ;;
    --release) release=${2:?--release needs 4 or 3} && shift ;;
    --set) settings+=("${2:?--set needs a line}") && shift ;;
    *[!0-9]* | '') echo "peer.sh: '$1' is not understood" >&2 && exit 2 ;;
    *) port=$1 ;;
    esac
    shift
done
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leveret-peer
root=${PEER_ROOT:-$cache/testing}
# Where the node's own epmd listens: that of the system's nodes is not touched.
export ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((port + 10000))

fail() {
    echo "peer.sh: $*" >&2
    exit 1
}

# Where a release keeps a node's data: `dir` as seen from here, `inside` as the node sees it.
use_release() {
    release=$1
    case $release in
    4) inside=/peer/$port dir=$root/peer/$port ;;
    3) inside=${PEER_DIR:-$cache}/$port dir=${PEER_DIR:-$cache}/$port ;;
    *) fail "there is no release '$release'" ;;
    esac
    pid_file=$dir/pid
}

# Runs something where the release is installed. There it has /proc too, without which the management plugin does
# not start; the mount is that of the process alone, and goes with it.
within() {
    if [ "$release" = 4 ]; then
        # shellcheck disable=SC2016
        unshare --mount sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
    else
        "$@"
    fi
}

# The system's packages, or those of testing in a directory of their own.
install_testing() {
    [ ! -e "$root/installed" ] || return 0
    [ "$(id -u)" = 0 ] || return 1
    rm -rf "$root"
    {
        command -v debootstrap || { apt-get update && apt-get install -y --no-install-recommends debootstrap; }
        debootstrap --variant=minbase --include=rabbitmq-server testing "$root"
    } >&2 || return 1
    cp /etc/hosts "$root/etc/hosts" && touch "$root/installed"
}

# Keeps the package from starting a node of its own while it is installed.
install_package() {
    [ ! -x $server ] || return 0
    [ "$(id -u)" = 0 ] || fail "rabbitmq-server is not installed; as root: apt-get install rabbitmq-server"
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e $policy ]; then
        made=1
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
    fi
    export DEBIAN_FRONTEND=noninteractive
    local status=0
    { apt-get update && apt-get install -y --no-install-recommends rabbitmq-server; } >&2 || status=$?
    [ -z "$made" ] || rm -f $policy
    [ "$status" = 0 ] || fail "rabbitmq-server cannot be installed"
}

install_release() {
    case $release in
    3) install_package ;;
    4) install_testing || fail "release 4 cannot be had: as root, debootstrap needs Debian's mirror; see --release 3" ;;
    *) if install_testing; then release=4; else install_package && release=3; fi ;;
    esac
    use_release "$release"
}

# The plugins as an Erlang term, by their whole names.
enabled_plugins() {
    local names=() name
    for name in ${plugins//,/ }; do
        names+=("rabbitmq_${name#rabbitmq_}")
    done
    local IFS=,
    echo "[${names[*]}]."
}

is_running() {
    [ -s "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null
}

answers() {
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

# LavinMQ, NATS or Redis, with its data in PEER_DIR/PORT.
start_other() {
    use_release 3
    ! is_running || fail "it runs already (process $(cat "$pid_file"))"
    ! answers || fail "something else listens on port $port"
    local told program words
    case $broker in
    lavinmq)
        program=${checkout:?lavinmq needs --checkout DIR}/bin/lavinmq
        [ -x "$program" ] || (cd "$checkout" && shards build --release >&2) || fail "LavinMQ cannot be built in $checkout"
        words=(--data-dir "$dir/data" --bind 127.0.0.1 --amqp-port "$port" --http-port $((port + 10000))
            --mqtt-port $((port + 20000)) --metrics-http-port $((port + 25000)))
        told="--target lavinmq=amqp://127.0.0.1:$port,pid="
        ;;
    nats)
        program=$(command -v nats-server) || fail "nats-server is not on PATH"
        words=(--config "$dir/nats.conf")
        told="nats -s nats://127.0.0.1:$port bench ... # process "
        ;;
    redis)
        program=$(command -v redis-server) || fail "redis-server is not on PATH"
        words=(--bind 127.0.0.1 --port "$port" --dir "$dir/data" --save '' --appendonly yes
            --appendfsync "$([ -n "$sync" ] && echo always || echo everysec)")
        told="redis-benchmark -p $port ... # process "
        ;;
    *) fail "there is no broker '$broker'" ;;
    esac
    mkdir -p "$dir/data"
    echo "$broker" >"$dir/broker"
    printf 'listen: 127.0.0.1:%s\njetstream { store_dir: "%s"%s }\n' "$port" "$dir/data" \
        "${sync:+, sync_interval: always}" >"$dir/nats.conf"
    setsid nohup "$program" "${words[@]}" >"$dir/start.log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    for _ in $(seq 300); do
        if answers; then
            echo "$told$(cat "$pid_file")"
            return
        fi
        is_running || break
        sleep 0.1
    done
    cat "$dir/start.log" >&2
    fail "it does not start; see $dir/start.log"
}

start() {
    if [ "$broker" != rabbitmq ]; then
        start_other
        return
    fi
    install_release
    ! is_running || fail "it runs already (process $(cat "$pid_file"))"
    ! answers || fail "something else listens on port $port"
    mkdir -p "$dir/log"
    : >"$dir/env.conf"
    enabled_plugins >"$dir/enabled_plugins"
    printf 'listeners.tcp.default = 127.0.0.1:%s\nlog.console = false\n' "$port" >"$dir/rabbitmq.conf"
    case $plugins in
    *management* | *top*) printf 'management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\n' $((port + 30000)) >>"$dir/rabbitmq.conf" ;;
    esac
    local stream=
    case $plugins in
    *stream*)
        printf 'stream.listeners.tcp.1 = 127.0.0.1:%s\n' $((port + 25000)) >>"$dir/rabbitmq.conf"
        stream=,stream=rabbitmq-stream://127.0.0.1:$((port + 25000))
        ;;
    esac
    [ ${#settings[@]} = 0 ] || printf '%s\n' "${settings[@]}" >>"$dir/rabbitmq.conf"
    within env -u RABBITMQ_NODE_PORT HOME="$inside" \
        RABBITMQ_NODENAME="${PEER_NODENAME:-rabbit-$port@localhost}" \
        RABBITMQ_CONF_ENV_FILE="$inside/env.conf" \
        RABBITMQ_CONFIG_FILE="$inside/rabbitmq.conf" \
        RABBITMQ_ENABLED_PLUGINS_FILE="$inside/enabled_plugins" \
        RABBITMQ_MNESIA_BASE="$inside/mnesia" \
        RABBITMQ_LOG_BASE="$inside/log" \
        RABBITMQ_PID_FILE="$inside/pid" \
        RABBITMQ_DIST_PORT=$((port + 20000)) \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
        setsid nohup "$server" >"$dir/log/start.log" 2>&1 </dev/null &
    local started=$!
    for _ in $(seq 600); do
        if is_running && answers; then
            echo "--target rabbitmq=amqp://127.0.0.1:$port,pid=$(cat "$pid_file")$stream"
            return
        fi
        kill -0 $started 2>/dev/null || break
        sleep 0.1
    done
    cat "$dir/log/start.log" >&2
    fail "it does not start; see $dir/log"
}

stop() {
    use_release 4
    is_running || use_release 3
    is_running || fail "it does not run"
    local pid
    pid=$(cat "$pid_file")
    kill "$pid"
    for _ in $(seq 600); do
        if ! kill -0 "$pid" 2>/dev/null; then
            [ -e "$dir/broker" ] || within epmd -kill >/dev/null || fail "epmd on port $ERL_EPMD_PORT does not end"
            rm -rf "$dir"
            return
        fi
        sleep 0.1
    done
    fail "process $pid does not end"
}

case $command in
start) start ;;
stop) stop ;;
*)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac

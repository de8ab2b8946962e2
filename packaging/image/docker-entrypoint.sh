#!/bin/sh
# Runs the broker, or whatever else the container is told to run. Arguments that are options are the broker's.
set -e

if [ "${1#-}" != "$1" ]; then
    set -- rabbitmq-server "$@"
fi
if [ "$1" = rabbitmq-server ]; then
    shift
    # Whoever mounts a folder over /etc/rabbitmq need not have both.
    # Of two settings of one key the later counts: that in conf.d.
    for config in /etc/rabbitmq/conf.d "${RABBITMQ_CONFIG_FILE:-/etc/rabbitmq/rabbitmq.conf}"; do
        if [ -e "$config" ]; then
            set -- --config "$config" "$@"
        elif [ -e "$config.conf" ]; then
            set -- --config "$config.conf" "$@"
        fi
    done
    exec leveret server "$@"
fi
exec "$@"

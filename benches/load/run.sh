#!/usr/bin/env bash
# Compares the server with its yardsticks, on this machine and in this run. See README.md.
#
#   run.sh kubeadm   the kubeadm chain answering a Service's A record, against NSD with the same names
#   run.sh hosts     the plugin hosts behind errors, prometheus and loadbalance, against NSD
#   run.sh whoami    whoami against the bare responder
#   run.sh workers   two workers on two cores against one
#   run.sh startup   time to the first answer and memory, with Corefile.example
#   run.sh memory    memory with 10,000 Services and 150,000 endpoints, at rest and while all files are read again
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${WORK:-${TMPDIR:-/tmp}/coredns-rs-bench}
binary=${BINARY:-$root/target/release/coredns-rs}
mkdir -p "$work"

need() { command -v "$1" >/dev/null || { echo "$1 is missing: $2" >&2; exit 1; }; }

prepare() {
  need python3 "install python3"
  need cc "install gcc"
  [ -x "$binary" ] || { echo "$binary is missing: cargo build --release" >&2; exit 1; }
  [ -f "$work/zone/db.zone" ] || python3 "$here/gen_zone.py" --out "$work/zone" --origin cluster.local --style k8s
  mkdir -p "$work/cluster"
  [ -f "$work/cluster/all.json" ] || python3 "$here/gen_cluster.py" --hosts "$work/zone/hosts" --out "$work/cluster/all.json"
  [ "$work/responder" -nt "$here/responder.c" ] || cc -O2 -o "$work/responder" "$here/responder.c"
  [ "$work/dnsblast-bin" -nt "$here/dnsblast.c" ] || cc -O2 -o "$work/dnsblast-bin" "$here/dnsblast.c"
  nsd_configuration >"$work/nsd.conf"
}

nsd_configuration() {
  cat <<CONF
server:
  server-count: 1
  ip-address: 127.0.0.1
  port: ${PORT_A:-5300}
  username: ""
  zonesdir: "$work"
  pidfile: ""
  zonelistfile: "$work/nsd-zones.list"
  xfrdfile: ""
  database: ""
  minimal-responses: yes
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: cluster.local
  zonefile: "$work/zone/db.zone"
CONF
}

# A Corefile of this folder with its placeholders filled, for a server on port $2.
corefile() {
  sed -e "s#@PORT@#$2#; s#@HTTP@#$(($2 + 2000))#; s#@WORK@#$work#; s#@CLUSTER@#${3:-$work/cluster}#" \
    "$here/$1.Corefile" >"$work/$1.$2.Corefile"
  echo "$work/$1.$2.Corefile"
}

compare() { # title, command of A, Corefile of B
  prepare
  DNSBENCH_TMP="$work" python3 "$here/dnsbench.py" ab --port 5300 --queries "$work/zone/q_a.txt" \
    --probe 'svc-00001.ns01.svc.cluster.local A' --label "$1" --restarts "${RESTARTS:-2}" --slices "${SLICES:-8}" \
    --slice 0.5 --a "$2" --b "$binary -conf $(corefile "$3" 5302)"
}

case ${1:-} in
  kubeadm | hosts) need nsd "install Debian's package nsd"; compare "NSD -> $1" "nsd -d -c $work/nsd.conf" "$1" ;;
  whoami) compare "bare responder -> whoami" "$work/responder 5300" whoami ;;
  workers)
    prepare
    python3 "$here/workers.py" "$work" "$binary" "$(corefile kubeadm 5400)" 5400 "$(corefile kubeadm 5402)" 5402
    ;;
  startup) prepare; python3 "$here/memory.py" startup "$work" "$binary" "$root" ;;
  memory)
    prepare
    python3 "$here/gen_cluster.py" --out "$work/large"
    python3 "$here/memory.py" large "$work" "$binary" "$(corefile kubeadm 5600 "$work/large")" 5600
    ;;
  *) sed -n '2,11p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac

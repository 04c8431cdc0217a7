#!/bin/bash
# Plays the newcomer: `make bench` and `make test` in a fresh Debian 12 that has git, make and Python only.
#
#     sudo scripts/bare_machine.sh root|user [bench|test ...]     both commands by default
#
# As `root`, Debian packages are installed on the way; as `user`, an ordinary user without sudo, they can't be, and
# what needs them must be skipped with its reason. Needs debootstrap. Prints the time, by the clock and of processors,
# the size of what was downloaded (Debian packages kept by apt, wheels by pip's log) and the size on disk. KEEP=1 keeps
# the folder; BIND="/a /b" shows folders of this machine, such as one with wheels, to the new one. This machine's
# mirrors, certificates and pip settings are used there, too.
set -euo pipefail

who=${1:?root or user}
shift
[ $# -gt 0 ] || set -- bench test
here=$(cd "$(dirname "$0")/.." && pwd)
new=$(mktemp -d "${TMPDIR:-/var/tmp}/bare.XXXXXX")
chmod 755 "$new"
binds=(/proc /sys /dev ${BIND:-})

leave() {
    for ((i = ${#binds[@]} - 1; i >= 0; i--)); do
        umount -l "$new${binds[$i]}" 2>/dev/null || true
    done
    if [ -n "${KEEP:-}" ]; then echo "kept: $new"; else rm -rf --one-file-system "$new"; fi
}
trap leave EXIT

mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
    sed -nE 's/^(URIs:|deb) .*(https?:[^ ]*\/debian\/?)( .*|$)/\2/p' | head -n 1)
debootstrap --variant=minbase --include=git,make,python3,ca-certificates bookworm "$new" "$mirror" >/dev/null
echo "a bare Debian $(cat "$new/etc/debian_version"): $(du -smx "$new" | cut -f1) MB"

cp /etc/resolv.conf /etc/hosts "$new/etc/"
cp -r /usr/local/share/ca-certificates/. "$new/usr/local/share/ca-certificates/" 2>/dev/null || true
cp /etc/ssl/certs/ca-certificates.crt "$new/etc/ssl/certs/"
cp /etc/pip.conf "$new/etc/" 2>/dev/null || true
{ grep -ls "Acquire::" /etc/apt/apt.conf.d/* || true; } | xargs -r cp -t "$new/etc/apt/apt.conf.d/"
rm "$new/etc/apt/sources.list"  # debootstrap's, which names what this machine's own do
cp -r /etc/apt/sources.list* "$new/etc/apt/"
cp -r /usr/share/keyrings/. "$new/usr/share/keyrings/"
for folder in "${binds[@]}"; do
    mkdir -p "$new$folder"
    mount --rbind "$folder" "$new$folder"
    mount --make-rslave "$new$folder"
done

chroot "$new" useradd -m newcomer
git clone -q "$here" "$new/home/newcomer/vagen-envs"
as=root
home=/root
[ "$who" = root ] || { as=newcomer; home=/home/newcomer; chroot "$new" chown -R newcomer: "$home"; }
# nothing of this shell's environment but how to reach the registries
log=$home/pip.log
size() { du -smx "${binds[@]/#/--exclude=$new}" "$new" | cut -f1; }
downloaded() {
    local wheels
    wheels=$(sed -nE 's/.*Downloading .*\(([0-9.]+) ([kMG]?)B\).*/\1 \2/p' "$new$log" 2>/dev/null |
        awk '{ sum += $1 * ($2 == "G" ? 1000 : $2 == "M" ? 1 : $2 == "k" ? 1e-3 : 1e-6) } END { print int(sum) }')
    echo $((wheels + $(du -sm "$new/var/cache/apt/archives" | cut -f1)))
}
reach=$(env | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|[a-z_A-Z]*_proxy|[A-Z_]*_PROXY)' || true)
mapfile -t reach <<<"$reach"

status=0
TIMEFORMAT="%U s of processors, and %S s in the system:"
for command in "$@"; do
    begun=$(date +%s)
    result=passed
    time chroot --userspec="$as:$as" "$new" /usr/bin/env -i "${reach[@]}" HOME="$home" PIP_LOG="$log" PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 \
        make -C /home/newcomer/vagen-envs "$command" || { result=FAILED; status=1; }
    echo "make $command as $as $result in $((($(date +%s) - begun) / 60)) min $((($(date +%s) - begun) % 60)) s;" \
        "downloads so far $(downloaded) MB, on disk $(size) MB"
done
exit $status

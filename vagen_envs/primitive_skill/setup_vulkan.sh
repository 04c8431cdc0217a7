#!/bin/sh
# Brings a Vulkan driver that SAPIEN can draw with on a CPU: Mesa's lavapipe, 23.1 or newer.
# PrimitiveSkill's pictures need it; everything else runs without. Debian 12's own Mesa 22.3 is too old
# (it lacks descriptorBindingPartiallyBound), so there it comes from bookworm-backports.
# Does nothing where a driver is already there. Needs root; otherwise prints what to run as root.
set -eu

oldest=23.1

if [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ]; then
    echo "Vulkan: using the driver that VK_DRIVER_FILES or VK_ICD_FILENAMES names."
    exit 0
fi
for folder in /usr/share/vulkan/icd.d /etc/vulkan/icd.d; do
    if [ -e "$folder/nvidia_icd.json" ]; then
        echo "Vulkan: using NVIDIA's driver ($folder/nvidia_icd.json)."
        exit 0
    fi
done
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "Vulkan: install Mesa's Vulkan drivers, $oldest or newer, with this system's package manager" >&2
    echo "(Fedora: dnf install mesa-vulkan-drivers; Arch: pacman -S vulkan-swrast)." >&2
    exit 1
fi

installed=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers 2>/dev/null || true)
if [ -n "$installed" ] && dpkg --compare-versions "$installed" ge "$oldest"; then
    echo "Vulkan: mesa-vulkan-drivers $installed is there."
    exit 0
fi

release=
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
if [ "$codename" = bookworm ]; then
    release="-t bookworm-backports"
fi
# libgl1 and libglib2.0-0: what OpenCV, which ManiSkill imports, links to.
install="apt-get install -y --no-install-recommends $release mesa-vulkan-drivers libgl1 libglib2.0-0"
list=/etc/apt/sources.list.d/vagen-backports.list
# The mirror that this system's packages come from has the backports too.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -nE 's/^(URIs:|deb) .*(https?:[^ ]*\/debian\/?)( .*|$)/\2/p' | head -n 1)
source="deb $mirror bookworm-backports main"

if [ "$(id -u)" != 0 ]; then
    echo "Vulkan: SAPIEN needs Mesa's Vulkan drivers, $oldest or newer. As root, run:" >&2
    [ -z "$release" ] || echo "  echo '$source' > $list" >&2
    echo "  apt-get update && $install" >&2
    exit 1
fi
if [ -n "$release" ] && ! grep -qrs bookworm-backports /etc/apt/sources.list /etc/apt/sources.list.d; then
    echo "$source" > "$list"
fi
apt-get update -q
DEBIAN_FRONTEND=noninteractive $install
echo "Vulkan: mesa-vulkan-drivers $(dpkg-query -W -f '${Version}' mesa-vulkan-drivers) installed."

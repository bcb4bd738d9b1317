#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Regions of dma-bufs, which udmabuf exports, between two namespaces. Arguments go to the
# program (see --help).

. "$(dirname "$0")/lib.sh"

[ -e /dev/udmabuf ] || modprobe udmabuf 2>/dev/null
[ -e /dev/udmabuf ] || skip_all "no /dev/udmabuf (CONFIG_UDMABUF)"
setup
"$(dirname "$0")/dmabuf" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "$@"

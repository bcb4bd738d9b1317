#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two guests, a modelled card each, cabled to one another, rocev2 attached natively to both: RDMA programs of the
# distribution between them, both ways, by IPv4 and IPv6. Both guests run this script.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"
. "$(dirname "$0")/pair.sh"

native_test

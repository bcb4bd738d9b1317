#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# As connectx_native_pair.sh, but guest b has rdma_rxe on the netdev of its card.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"
. "$(dirname "$0")/pair.sh"

PEER=rxe
native_test

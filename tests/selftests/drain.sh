#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Draining by a kernel consumer, the module rocev2_kdrain (tests/kmod): in every state,
# after errors, under load.
#
#   ROCEV2_KMOD  directory with rocev2_kdrain.ko

. "$(dirname "$0")/lib.sh"

need_kmod rocev2_kdrain
setup
run_kmod rocev2_kdrain
plan "$cases"
report_kmod
finish

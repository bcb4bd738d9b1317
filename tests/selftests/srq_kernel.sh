#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Shared receive queues of a kernel consumer, the module rocev2_ksrq (tests/kmod).
#
#   ROCEV2_KMOD  directory with rocev2_ksrq.ko

. "$(dirname "$0")/lib.sh"

need_kmod rocev2_ksrq
setup
run_kmod rocev2_ksrq
plan "$cases"
report_kmod
finish

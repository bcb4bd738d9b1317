#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The programs of librdmacm: connections and datagrams over IPv4 and IPv6, between two
# namespaces and within one, multicast, streams, and many connections at a time.

. "$(dirname "$0")/lib.sh"

need rping ucmatose udaddy mckey rstream riostream cmtime rdma_server rdma_client ss
setup
route_multicast

plan 33
objects_before
for family in 4 6; do
	if [ $family = 4 ]; then at=$IP4_B from=$IP4_A; else at=$IP6_B from=$IP6_A; fi
	cm_programs "IPv$family" "$NS_B" "$at" "$NS_A" "$from"
	cm_programs "IPv$family within a namespace" "$NS_B" "$at" "$NS_B" "$at"
done
# cmtime knows IPv4 alone.  Its second round makes connections of QP numbers that it invents,
# from -q on: two ends on one device must not invent the same.
check "cmtime, 1000 connections" serve cm_listens "$NS_B" cmtime -b "$IP4_B" -c 1000 -- \
	"$NS_A" cmtime -s "$IP4_B" -c 1000
check "cmtime within a namespace, 1000 connections" serve cm_listens "$NS_B" cmtime -b "$IP4_B" -c 1000 -q 100000 -- \
	"$NS_B" cmtime -s "$IP4_B" -c 1000
check "no object is left" eventually objects_as_before
finish

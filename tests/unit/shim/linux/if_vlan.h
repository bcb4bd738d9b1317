/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: what the uapi's header of this name lacks. */
#ifndef SHIM_LINUX_IF_VLAN_H
#define SHIM_LINUX_IF_VLAN_H

#define VLAN_VID_MASK	0x0fff

#endif

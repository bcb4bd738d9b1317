# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# make help lists the targets.

KDIR ?= /lib/modules/$(shell uname -r)/build

# make modules KDIR=... KARGS="W=1 ARCH=um" reaches the kernel's build
KARGS ?=

# of the machines that demo and check boot; guests at once, 2 GiB each
RIG ?= qemu
JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))

.PHONY: all help modules install demo demo-connectx check check-debug check-connectx bench-moderation micro unit style clean clean-modules

all: modules

help:
	@echo 'modules  build rocev2.ko for KDIR=$(KDIR)'
	@echo 'install  install it below /lib/modules and run depmod'
	@echo 'demo     boot a machine, load the module, show ib_write_bw between two namespaces;'
	@echo '         RIG=qemu (Debian kernel of this host, default) or RIG=uml (builds a kernel first)'
	@echo 'demo-connectx  boot two machines with a modelled ConnectX each, attach to them, show RDMA programs between'
	@echo '         them: on the kernels of Debian 13 and 12, and with rdma_rxe at one end; RIG=qemu or RIG=uml'
	@echo 'check    unit tests, style, and all selftests on all kernels; JOBS=N guests at once ($(JOBS))'
	@echo 'check-debug  all selftests on kernels with KASAN and UBSAN, and with lockdep and kmemleak; check runs a few of'
	@echo '         them on the first'
	@echo 'check-connectx  all selftests with modelled ConnectX cards, on all kernels; check runs the short ones on Debian kernels'
	@echo 'bench-moderation  measure the modes of moderation of the native ConnectX attach: Documentation/moderation.md'
	@echo 'micro    micro-benchmarks of protocol files and receive path, in user space: times, and instructions'
	@echo '         beside those recorded: Documentation/testing.md'
	@echo 'unit     the unit tests alone: protocol, micro-benchmarks (once), connectx-model; root, for the last: it is compiled'
	@echo '         against the cached kernel source (downloaded the first time)'
	@echo 'style    checkpatch, sparse and W=1 builds for each kernel'
	@echo 'clean    remove what modules and the tests made; the cache stays'

# objects of another kernel are not reused
modules:
	@test -d '$(KDIR)' || { echo 'no kernel headers in $(KDIR): install linux-headers or set KDIR='; exit 1; }
	@test "$$(cat .kdir 2>/dev/null)" = '$(realpath $(KDIR))' || \
		{ test ! -e .kdir || $(MAKE) --no-print-directory clean-modules; echo '$(realpath $(KDIR))' >.kdir; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(KARGS) modules

install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(KARGS) modules_install
	depmod $(if $(INSTALL_MOD_PATH),-b $(INSTALL_MOD_PATH)) -a "$$(sed -n 's,^.define UTS_RELEASE "\(.*\)",\1,p' \
		$(KDIR)/include/generated/utsrelease.h)"

# Guests, roots and kernels are cached in ${XDG_CACHE_HOME:-~/.cache}/rocev2.
demo:
	@tests/rig/start demo --rig $(RIG)

demo-connectx:
	@tests/rig/start demo-connectx --rig $(RIG)

check:
	@tests/rig/start check --jobs $(JOBS)

check-debug:
	@tests/rig/start check-debug --jobs $(JOBS)

check-connectx:
	@tests/rig/start check-connectx --jobs $(JOBS)

# The tables, moderation.json and moderation.svg in Documentation
bench-moderation:
	@tests/rig/start bench-moderation

micro unit style:
	@tests/rig/start $@

clean: clean-modules
	@rm -rf build

clean-modules:
	@test ! -d '$(KDIR)' || $(MAKE) -C $(KDIR) M=$(CURDIR) $(KARGS) clean
	@rm -f .kdir

# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# make help lists the targets.

KDIR ?= /lib/modules/$(shell uname -r)/build

# make modules KDIR=... KARGS="W=1 ARCH=um" reaches the kernel's build
KARGS ?=

.PHONY: all help modules install clean

all: modules

help:
	@echo 'modules  build rocev2.ko for KDIR=$(KDIR)'
	@echo 'install  install it below /lib/modules and run depmod'
	@echo 'clean    remove what modules made'

# objects of another kernel are not reused
modules:
	@test -d '$(KDIR)' || { echo 'no kernel headers in $(KDIR): install linux-headers or set KDIR='; exit 1; }
	@test "$$(cat .kdir 2>/dev/null)" = '$(realpath $(KDIR))' || \
		{ test ! -e .kdir || $(MAKE) --no-print-directory clean; echo '$(realpath $(KDIR))' >.kdir; }
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(KARGS) modules

install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(KARGS) modules_install
	depmod -a

clean:
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(KARGS) clean
	@rm -f .kdir

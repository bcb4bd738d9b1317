// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* How the function gets to a guest: what vfio-user and virtio-pcidev have in common. */
#pragma once

#include "card.hpp"

#include <string>

namespace cx {

class Transport : public Bus {
public:
    /** Before the first turn of the event loop; `function` is used as long as the loop runs. */
    virtual void Start(Function &function) = 0;
    /**
     * Surprise removal: nothing is written any more, all-ones is read, and the guest's side sees the connection end.
     * False: no guest is connected, or the card is removed already.
     */
    virtual bool Disconnect() = 0;
    /** State and counters as a JSON object. */
    virtual std::string Status() const = 0;
};

} // namespace cx

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Modelled ConnectX cards (tools/connectx-model) for the guests of one test: a process each, cabled back to back, a
 * log each, and a directory through which the guests reach their control sockets and one another.
 */
#pragma once

#include "kernels.h"

#include <memory>

namespace rig {

struct CardSetup {
    fs::path model;		/* the program */
    Rig rig = Rig::kUml;	/* how the guests see PCI */
    unsigned guests = 1;	/* named a, b */
    unsigned per_guest = 0;	/* named a0, a1 ... */
    std::string wire = "none";	/* of a card without a partner: the model's --backend */
    unsigned mbit = 0;		/* rate of the cables; 0: none is kept */
    bool trace = false;		/* commands and doorbells into the logs, too */
    fs::path directory;		/* for the logs; emptied */
};

/* The role of a guest in its test: 0 is "a". */
std::string GuestRole(unsigned guest);

/* A card that did not behave. */
struct CardTrouble {
    std::string what;	/* one line */
    fs::path log;
};

class Cards {
public:
    /*
     * Starts them and returns when they listen. With two guests each card is cabled to the card of the same number in
     * the other; with one, card 0 to card 1, 2 to 3 and so on.
     */
    explicit Cards(const CardSetup &setup);
    ~Cards();
    Cards(const Cards &) = delete;
    Cards &operator=(const Cards &) = delete;

    /* To give to Boot::cards of that guest. */
    std::vector<fs::path> Sockets(unsigned guest) const;

    /*
     * To be shared with all the guests, writable. A file NAME.request that appears in it (by rename) is taken for a
     * command to the control socket of the card that NAME begins with, up to a dot; the answer appears as NAME.answer.
     * Everything else there is the guests' own.
     */
    const fs::path &Exchange() const;

    /* Ends them. Who has complained, or was dead already. */
    std::vector<CardTrouble> Stop();

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace rig

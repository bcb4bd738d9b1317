// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What is measured: operations that Google Benchmark times and callgrind counts the instructions of. */
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace micro {

struct Operation {
    std::string name;
    std::function<bool()> right;    /* does it once: is the answer the one it must be? */
    std::function<void(benchmark::State &)> time;
    std::function<void(std::size_t)> repeat;
};

class Operations {
public:
    /*
     * `body` does the operation once and returns its answer, `right` says whether that is right. What `body`
     * captures is read anew each time: the compiler cannot know it in advance. `bytes`: that one operation
     * handles, for a rate.
     */
    template <typename Body, typename Right>
    void Add(std::string name, Body body, Right right, std::size_t bytes = 0)
    {
        const auto shared = std::make_shared<Body>(std::move(body));

        list_.push_back({
            .name = std::move(name),
            .right = [shared, right = std::move(right)] { return right((*shared)()); },
            .time =
                [shared, bytes](benchmark::State &state) {
                    Body &once = *shared;

                    for (auto _ : state) {
                        auto answer = once();
                        benchmark::DoNotOptimize(answer);
                    }
                    if (bytes > 0)
                        state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
                },
            .repeat =
                [shared](std::size_t times) {
                    Body &once = *shared;

                    while (times-- > 0) {
                        auto answer = once();
                        benchmark::DoNotOptimize(answer);
                    }
                },
        });
    }

    [[nodiscard]] const std::vector<Operation> &list() const { return list_; }

private:
    std::vector<Operation> list_;
};

/* For `right`: the answer is this one. */
template <typename Answer>
auto Is(Answer wanted)
{
    return [wanted](Answer answer) { return answer == wanted; };
}

/* protocol.cpp: PSNs, opcodes, headers, ICRC, bounds. */
void AddProtocol(Operations &operations);
/* keys.cpp: translation caches and keys. */
void AddKeys(Operations &operations);
/* stages.cpp: the stages of the receive path, alone and one after the other. */
void AddStages(Operations &operations);

} // namespace micro

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The card's counters and objects as JSON. */
#include "card_state.hpp"

#include <nlohmann/json.hpp>

namespace cx {
namespace {

using nlohmann::json;

json PortStatus(const Objects &objects)
{
    const PortCounters &port = objects.port;

    return {
        { "link_up", objects.link_up },
        { "admin_up", objects.admin_up },
        { "rx_packets", port.rx_packets },
        { "rx_bytes", port.rx_bytes },
        { "rx_multicast", port.rx_multicast },
        { "rx_broadcast", port.rx_broadcast },
        { "tx_packets", port.tx_packets },
        { "tx_bytes", port.tx_bytes },
        { "tx_multicast", port.tx_multicast },
        { "tx_broadcast", port.tx_broadcast },
        { "rx_steering_drops", port.rx_steering_drops },
        { "rx_link_down", port.rx_link_down },
        { "rx_oversize", port.rx_oversize },
        { "dma_errors", port.dma_errors },
    };
}

json QueueStatus(const Objects &objects)
{
    json queues = { { "eqs", json::array() }, { "cqs", json::array() }, { "rqs", json::array() },
                    { "sqs", json::array() } };

    for (const auto &[number, eq] : objects.eqs)
        queues["eqs"].push_back({ { "number", number },
                                  { "vector", eq.vector },
                                  { "producer", eq.producer },
                                  { "consumer", eq.consumer },
                                  { "armed", eq.armed },
                                  { "overrun", eq.overrun } });
    for (const auto &[number, cq] : objects.cqs)
        queues["cqs"].push_back({ { "number", number },
                                  { "eq", cq.eq },
                                  { "state", static_cast<unsigned>(cq.state) },
                                  { "period_us", cq.period_us },
                                  { "max_count", cq.max_count },
                                  { "completions", cq.completions },
                                  { "events", cq.events_sent } });
    for (const auto &[number, rq] : objects.rqs)
        queues["rqs"].push_back({ { "number", number },
                                  { "cq", rq.cq },
                                  { "state", static_cast<unsigned>(rq.state) },
                                  { "striding", rq.striding },
                                  { "packets", rq.packets },
                                  { "bytes", rq.bytes },
                                  { "out_of_buffer", rq.out_of_buffer } });
    for (const auto &[number, sq] : objects.sqs)
        queues["sqs"].push_back({ { "number", number },
                                  { "cq", sq.cq },
                                  { "state", static_cast<unsigned>(sq.state) },
                                  { "packets", sq.packets },
                                  { "bytes", sq.bytes } });
    return queues;
}

json SteeringStatus(const Objects &objects)
{
    json tables = json::array();

    for (const auto &[number, table] : objects.tables)
        tables.push_back({ { "number", number },
                           { "level", table.level },
                           { "groups", table.groups.size() },
                           { "flows", table.entries.size() } });
    return tables;
}

std::string_view Name(FunctionState state)
{
    switch (state) {
    case FunctionState::kDisabled:
        return "disabled";
    case FunctionState::kEnabled:
        return "enabled";
    case FunctionState::kInitialized:
        return "initialized";
    }
    return "";
}

} // namespace

std::string Card::Status() const
{
    const Objects &objects = state_->objects;
    json status = {
        { "function", Name(objects.function) },
        { "driver", objects.driver_version },
        { "healthy", !state_->unhealthy },
        { "commands", state_->queue.executed() },
        { "complaints", state_->trace.complaints() },
        { "port", PortStatus(objects) },
        { "tables", SteeringStatus(objects) },
        { "objects",
          { { "pages", objects.pages_given.size() },
            { "uars", objects.uars.size() },
            { "pds", objects.pds.size() },
            { "transport_domains", objects.transport_domains.size() },
            { "mkeys", objects.mkeys.size() },
            { "tises", objects.tises.size() },
            { "rqts", objects.rqts.size() },
            { "tirs", objects.tirs.size() },
            { "flow_counters", objects.flow_counters.size() },
            { "q_counters", objects.q_counters.size() } } },
    };

    status.update(QueueStatus(objects));
    return status.dump();
}

} // namespace cx

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Memory that the kernel does not get. Each allocation of each verb fails in turn, in this
// thread: the verb says ENOMEM or does without, nothing is left behind, and the next call works.
// Then some allocations fail while data is on its way: packets are lost, data is not.
#include "common/balance.hpp"
#include "common/faults.hpp"
#include "common/memory.hpp"
#include "common/netlink.hpp"
#include "common/random.hpp"
#include "common/udmabuf.hpp"
#include "common/uverbs.hpp"
#include "common/verbs.hpp"

#include <arpa/inet.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

constexpr uint32_t qkey = 0x11223344;

using Mw = Handle<ibv_mw, ibv_dealloc_mw>;

struct More {
    std::string link_type = "rocev2";
};

// A connected pair with a buffer each: what must still work after every fault.
class Probe {
public:
    Probe(const Sides &sides, const Link &link)
        : pair_(make_pair(sides, link)), mr_a_(make_mr(sides.a, a_.span(), all_access)),
          mr_b_(make_mr(sides.b, b_.span(), all_access))
    {
    }

    Pair &pair() { return pair_; }
    ibv_mr *mr_b() const { return mr_b_.get(); }
    Buffer &buffer_b() { return b_; }

    // an atomic adds 1
    ibv_send_wr request(ibv_wr_opcode opcode, std::span<ibv_sge> sges) const
    {
        ibv_send_wr wr = remote_request(opcode, sges, reinterpret_cast<uintptr_t>(b_.data()), mr_b_->rkey, 1);
        wr.wr_id = 0;
        return wr;
    }

    ibv_sge local() const { return sge_of(a_.span(), mr_a_.get()); }

    // New data goes over and back.
    void works()
    {
        fill_pattern(a_.span(), seed_);
        std::memset(b_.data(), 0, b_.size());
        std::array sges{local()};
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            ibv_send_wr wr = request(opcode, sges);
            post_send(pair_.a.qp.get(), wr);
            check_wc(must_poll(pair_.a.send_cq.get(), "probe"), IBV_WC_SUCCESS, 0,
                     pair_.a.qp.get(), "probe");
            std::vector<std::byte> want(b_.size());
            fill_pattern(want, seed_);
            require(!std::memcmp(want.data(), b_.data(), b_.size()), "the probe's data is wrong");
            std::memset(a_.data(), 0, opcode == IBV_WR_RDMA_WRITE ? a_.size() : 0);
            if (opcode == IBV_WR_RDMA_READ)
                require(!std::memcmp(want.data(), a_.data(), a_.size()), "the probe read wrong data");
        }
        seed_++;
    }

private:
    Pair pair_;
    Buffer a_{5000};
    Buffer b_{5000};
    Mr mr_a_;
    Mr mr_b_;
    uint64_t seed_ = 1;
};

struct Bed {
    const Options &options;
    const More &more;
    const Sides &sides;
    Link link;
    Probe &probe;

    ibv_context *context() const { return sides.a.context.get(); }
    ibv_pd *pd() const { return sides.a.pd.get(); }
};

ibv_qp_init_attr qp_attr(ibv_qp_type type, ibv_cq *cq, ibv_srq *srq = nullptr)
{
    ibv_qp_init_attr attr{};
    attr.qp_type = type;
    attr.send_cq = cq;
    attr.recv_cq = cq;
    attr.srq = srq;
    attr.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4,
                .max_inline_data = 64};
    return attr;
}

ibv_ah_attr ah_attr(const Side &from, const ibv_gid &to)
{
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = from.port;
    attr.grh.dgid = to;
    attr.grh.sgid_index = from.gid_index;
    attr.grh.hop_limit = 64;
    return attr;
}

// `make` returns a Handle, empty with errno set when it could not.
template <typename Make>
void fail_making(const std::string &what, Make make, std::initializer_list<int> others = {})
{
    decltype(make()) object;
    fail_each_allocation(what, [&] {
        errno = 0;
        object = make();
        return object ? 0 : errno;
    }, [&] { object.reset(); }, others);
}

// --- cases: one verb each, or a family of them

void contexts(const Bed &bed)
{
    int count = 0;
    ibv_device **list = ibv_get_device_list(&count);
    require(list, "ibv_get_device_list: {}", std::strerror(errno));
    ibv_device *device = nullptr;
    for (int i = 0; i < count; i++)
        if (bed.options.dev_a == ibv_get_device_name(list[i]))
            device = list[i];
    // The library says ENOENT when it cannot open the character device.
    fail_making("open device", [&] { return Context(ibv_open_device(device)); }, {ENOENT});
    // closing it needs none
    ibv_free_device_list(list);
}

void protection_domains(const Bed &bed)
{
    fail_making("alloc PD", [&] { return Pd(ibv_alloc_pd(bed.context())); });
}

void memory_regions(const Bed &bed)
{
    // one page, a table of one page, one that comes from vmalloc
    for (const size_t size : {page_size, 512 * page_size, 4096 * page_size}) {
        Buffer buffer(size);
        std::memset(buffer.data(), 1, size);
        fail_making(fmt::format("register {} KiB", size / 1024), [&] {
            return Mr(ibv_reg_mr(bed.pd(), buffer.data(), size, all_access));
        });
    }
}

// A region that could not be changed is the region it was.
void reregistrations(const Bed &bed)
{
    Buffer one(512 * page_size);
    Buffer other(4096 * page_size);
    const Pd other_pd(ibv_alloc_pd(bed.sides.b.context.get()));
    require(static_cast<bool>(other_pd), "ibv_alloc_pd: {}", std::strerror(errno));
    const Mr mr = make_mr(bed.sides.b, one.span(), all_access);
    Buffer *now = &one;
    const auto region_works = [&] {
        const Endpoint &end = bed.probe.pair().a;
        std::array from{bed.probe.local()};
        std::byte *const last = now->data() + now->size() - from[0].length;
        std::memset(last, 0, from[0].length);
        ibv_send_wr wr = remote_request(IBV_WR_RDMA_WRITE, from, reinterpret_cast<uint64_t>(last), mr->rkey, 0);
        post_send(end.qp.get(), wr);
        check_wc(must_poll(end.send_cq.get(), "region"), IBV_WC_SUCCESS, wr.wr_id, end.qp.get(), "region");
        require(!std::memcmp(last, reinterpret_cast<void *>(from[0].addr), from[0].length),
                "the region's bytes are elsewhere");
    };
    int error = 0;
    bed.probe.works(); // leaves bytes to send
    fail_each_allocation("re-register: memory", [&] {
        Buffer &next = now == &one ? other : one;
        error = rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, {.memory = next.span()});
        if (!error)
            now = &next;
        return error;
    }, region_works);
    constexpr unsigned flags = IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    fail_each_allocation("re-register: PD and rights", [&] {
        error = rereg_mr(mr.get(), flags, {.pd = other_pd.get(), .memory = {}, .access = IBV_ACCESS_REMOTE_READ});
        return error;
    }, [&] {
        if (!error)
            require(!rereg_mr(mr.get(), flags, {.pd = bed.sides.b.pd.get(), .memory = {}, .access = all_access}),
                    "re-registering back");
        region_works();
    });
}

// Pages are faulted in by the thread that advises them.
void on_demand(const Bed &bed)
{
    constexpr size_t size = 1024 * page_size;
    Buffer buffer(size);
    const auto make = [&] {
        return Mr(ibv_reg_mr(bed.pd(), buffer.data(), size, all_access | IBV_ACCESS_ON_DEMAND));
    };
    fail_making("register on demand", make);
    const Mr mr = make();
    ibv_sge all = sge_of(buffer.span(), mr.get());
    // the kernel's page fault, out of memory, says EFAULT to who follows it
    fail_each_allocation("prefetch", [&] {
        return advise_mr(bed.pd(), IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, IB_UVERBS_ADVISE_MR_FLAG_FLUSH,
                         {&all, 1});
    }, [&] { require(!madvise(buffer.data(), size, MADV_DONTNEED), "madvise"); }, {EFAULT});
}

void dmabuf_regions(const Bed &bed)
{
    const Udmabuf exported(64 * page_size);
    DmabufMr mr;
    int error = 0;
    fail_each_allocation("register a dma-buf", [&] {
        error = reg_dmabuf_mr(bed.pd(), 0, 64 * page_size, 0, exported.fd(), all_access, mr);
        return error;
    }, [&] {
        if (!error)
            require(!dereg_dmabuf_mr(bed.context(), mr), "deregistering a dma-buf");
    });
}

void counters(const Bed &bed)
{
    RdmaNetlink netlink;
    const auto index = netlink.device_index(bed.options.dev_a);
    require(index.has_value(), "{} is not to be seen", bed.options.dev_a);
    const Cq cq = make_cq(bed.sides.a, 16);
    Qp qp;
    const auto new_qp = [&] {
        ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC, cq.get());
        qp = Qp(ibv_create_qp(bed.pd(), &attr));
        require(static_cast<bool>(qp), "ibv_create_qp: {}", std::strerror(errno));
    };
    new_qp();
    fail_each_allocation("bind a counter", [&] {
        return netlink.bind_counter(*index, bed.sides.a.port, qp->qp_num);
    }, new_qp, {ENOBUFS});
}

void completion_queues(const Bed &bed)
{
    fail_making("create completion channel", [&] {
        return Channel(ibv_create_comp_channel(bed.context()));
    });
    const Channel channel(ibv_create_comp_channel(bed.context()));
    for (const int entries : {16, 20000})
        fail_making(fmt::format("create CQ of {}", entries), [&] {
            return Cq(ibv_create_cq(bed.context(), entries, nullptr, channel.get(), 0));
        });
    const Cq cq = make_cq(bed.sides.a, 100);
    int entries = 100;
    fail_each_allocation("resize CQ", [&] {
        return ibv_resize_cq(cq.get(), entries == 100 ? 5000 : 100);
    }, [&] { entries = cq->cqe < 5000 ? 100 : 5000; });
}

void shared_receive_queues(const Bed &bed)
{
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 100, .max_sge = 4, .srq_limit = 0};
    fail_making("create SRQ", [&] {
        ibv_srq_init_attr attr = init;
        return Srq(ibv_create_srq(bed.pd(), &attr));
    });
    const Srq srq = make_srq(bed.sides.a, 100, 4);
    std::array<ibv_sge, 1> sges{};
    for (uint64_t id = 0; id < 50; id++)
        post_srq_recv(srq.get(), id, sges);
    uint32_t size = 100;
    fail_each_allocation("resize SRQ", [&] {
        ibv_srq_attr attr{};
        attr.max_wr = size == 100 ? 5000 : 100;
        return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR);
    }, [&] {
        ibv_srq_attr attr{};
        require(!ibv_query_srq(srq.get(), &attr), "ibv_query_srq failed");
        size = attr.max_wr < 5000 ? 100 : 5000;
    });
}

const char *name_of(ibv_qp_type type)
{
    return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

void queue_pairs(const Bed &bed)
{
    const Cq cq = make_cq(bed.sides.a, 16);
    const Srq srq = make_srq(bed.sides.a, 16);
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD})
        fail_making(fmt::format("create {} QP", name_of(type)), [&] {
            ibv_qp_init_attr attr = qp_attr(type, cq.get());
            return Qp(ibv_create_qp(bed.pd(), &attr));
        });
    fail_making("create RC QP with SRQ", [&] {
        ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC, cq.get(), srq.get());
        return Qp(ibv_create_qp(bed.pd(), &attr));
    });
    fail_making("create RC QP of 16000 WRs", [&] {
        ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC, cq.get());
        attr.cap.max_send_wr = 16000;
        attr.cap.max_recv_wr = 16000;
        return Qp(ibv_create_qp(bed.pd(), &attr));
    });
}

// The steps of a QP to RTS, and of the way back.
std::vector<std::pair<const char *, Modify>> steps_of(const Bed &bed, ibv_qp_type type)
{
    Modify init = init_step(bed.sides.a, bed.link);
    Modify rtr = rtr_step(bed.sides.a, bed.link, 0x1234, bed.sides.b.gid, 0);
    Modify rts = rts_step(bed.link, 0);
    if (type == IBV_QPT_UD) {
        init.attr.qkey = qkey;
        init.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
        rtr.mask = IBV_QP_STATE;
        rts.mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    } else if (type == IBV_QPT_UC) {
        rtr.mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        rts.mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    }
    return {{"INIT", init}, {"RTR", rtr}, {"RTS", rts}, {"ERR", state_step(IBV_QPS_ERR)}};
}

void modify_steps(const Bed &bed, ibv_qp_type type)
{
    const Cq cq = make_cq(bed.sides.a, 16);
    ibv_qp_init_attr attr = qp_attr(type, cq.get());
    const Qp qp(ibv_create_qp(bed.pd(), &attr));
    const auto steps = steps_of(bed, type);
    for (size_t i = 0; i < steps.size(); i++) {
        const ibv_qp_state before = i ? steps[i - 1].second.attr.qp_state : IBV_QPS_RESET;
        for (size_t j = 0; j < i; j++)
            must_modify(qp.get(), steps[j].second, steps[j].first);
        fail_each_allocation(fmt::format("modify {} QP to {}", name_of(type), steps[i].first), [&] {
            return modify(qp.get(), steps[i].second);
        }, [&] {
            const ibv_qp_state now = query_state(qp.get());
            require(now == before || now == steps[i].second.attr.qp_state,
                    "the QP is in state {}", static_cast<int>(now));
            must_modify(qp.get(), state_step(IBV_QPS_RESET), "RESET");
            for (size_t j = 0; j < i; j++)
                must_modify(qp.get(), steps[j].second, steps[j].first);
        });
        must_modify(qp.get(), state_step(IBV_QPS_RESET), "RESET");
    }
    fail_each_allocation(fmt::format("query {} QP", name_of(type)), [&] {
        ibv_qp_attr now{};
        ibv_qp_init_attr init{};
        return ibv_query_qp(qp.get(), &now, IBV_QP_STATE, &init);
    }, [] {});
}

void address_handles(const Bed &bed)
{
    ibv_ah_attr attr = ah_attr(bed.sides.a, bed.sides.b.gid);
    fail_making("create AH", [&] { return Ah(ibv_create_ah(bed.pd(), &attr)); });
}

void memory_windows(const Bed &bed)
{
    for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2})
        fail_making(fmt::format("alloc MW of type {}", type == IBV_MW_TYPE_1 ? 1 : 2), [&] {
            return Mw(ibv_alloc_mw(bed.pd(), type));
        });
    Buffer buffer(page_size);
    const Mr mr = make_mr(bed.sides.a, buffer.span(), all_access | IBV_ACCESS_MW_BIND);
    Mw mw;
    const auto new_window = [&] {
        mw = Mw(ibv_alloc_mw(bed.pd(), IBV_MW_TYPE_1));
        require(static_cast<bool>(mw), "ibv_alloc_mw: {}", std::strerror(errno));
    };
    new_window();
    const Endpoint &end = bed.probe.pair().a;
    std::array<ibv_sge, 0> none{};
    // The library has written the request to the ring before it rings: whether the doorbell got
    // its memory or not, the request is there and the next doorbell runs it. If not, the library
    // does not know which key the window has, so each is bound once.
    fail_each_allocation("bind MW", [&] {
        ibv_mw_bind bind{};
        bind.wr_id = 0;
        bind.send_flags = IBV_SEND_SIGNALED;
        bind.bind_info = {.mr = mr.get(), .addr = reinterpret_cast<uintptr_t>(buffer.data()),
                          .length = page_size, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
        return ibv_bind_mw(end.qp.get(), mw.get(), &bind);
    }, [&] {
        ibv_send_wr wr = bed.probe.request(IBV_WR_RDMA_WRITE, none);
        post_send(end.qp.get(), wr);
        for (int i = 0; i < 2; i++)
            check_wc(must_poll(end.send_cq.get(), "bind"), IBV_WC_SUCCESS, 0, end.qp.get(), "bind");
        new_window();
    });
}

Endpoint make_ud(const Side &side)
{
    Endpoint end;
    end.side = &side;
    end.send_cq = make_cq(side, 64);
    end.recv_cq = make_cq(side, 64);
    ibv_qp_init_attr attr = qp_attr(IBV_QPT_UD, end.send_cq.get());
    attr.recv_cq = end.recv_cq.get();
    end.qp = Qp(ibv_create_qp(side.pd.get(), &attr));
    require(static_cast<bool>(end.qp), "ibv_create_qp(UD): {}", std::strerror(errno));
    Modify init = init_step(side, {});
    init.attr.qkey = qkey;
    init.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    must_modify(end.qp.get(), init, "INIT");
    must_modify(end.qp.get(), state_step(IBV_QPS_RTR), "RTR");
    Modify rts = state_step(IBV_QPS_RTS);
    rts.mask |= IBV_QP_SQ_PSN;
    must_modify(end.qp.get(), rts, "RTS");
    return end;
}

void multicast(const Bed &bed)
{
    const Endpoint end = make_ud(bed.sides.a);
    for (const char *text : {"::ffff:239.71.0.9", "ff12::71:9"}) {
        ibv_gid group{};
        inet_pton(AF_INET6, text, group.raw);
        bool attached = false;
        const auto detach = [&] {
            if (attached)
                require(!ibv_detach_mcast(end.qp.get(), &group, 0), "ibv_detach_mcast failed");
            else
                require(ibv_detach_mcast(end.qp.get(), &group, 0) != 0,
                        "the QP is in the group it could not be attached to");
            attached = false;
        };
        fail_each_allocation(fmt::format("attach to {}", text), [&] {
            const int error = ibv_attach_mcast(end.qp.get(), &group, 0);
            attached = !error;
            return error;
        }, detach);
    }
}

void posted_requests(const Bed &bed)
{
    const Endpoint &a = bed.probe.pair().a;
    const Endpoint &b = bed.probe.pair().b;
    std::array<ibv_sge, 0> none{};
    const struct {
        const char *name;
        ibv_wr_opcode opcode;
    } kinds[] = {{"SEND", IBV_WR_SEND},
                 {"WRITE", IBV_WR_RDMA_WRITE},
                 {"WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM},
                 {"READ", IBV_WR_RDMA_READ},
                 {"FETCH_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD}};
    for (const auto &kind : kinds) {
        const bool takes_recv = kind.opcode == IBV_WR_SEND || kind.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        std::array one{bed.probe.local()};
        if (kind.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
            one[0].length = 8;
        std::array landing{sge_of(bed.probe.buffer_b().span(), bed.probe.mr_b())};
        uint64_t sum = 0;
        uint64_t adds = 0;
        std::memset(bed.probe.buffer_b().data(), 0, 8);
        fail_each_allocation(fmt::format("post {}", kind.name), [&] {
            if (takes_recv)
                post_recv(b.qp.get(), 0, landing);
            ibv_send_wr wr = bed.probe.request(kind.opcode, one);
            adds += kind.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
            ibv_send_wr *bad = nullptr;
            return ibv_post_send(a.qp.get(), &wr, &bad);
        }, [&] {
            // as for bind: what is in the ring goes with the next doorbell
            ibv_send_wr wr = bed.probe.request(IBV_WR_RDMA_WRITE, none);
            post_send(a.qp.get(), wr);
            for (int i = 0; i < 2; i++)
                check_wc(must_poll(a.send_cq.get(), kind.name), IBV_WC_SUCCESS, 0, a.qp.get(), kind.name);
            if (takes_recv)
                check_wc(must_poll(b.recv_cq.get(), kind.name), IBV_WC_SUCCESS, 0, b.qp.get(), kind.name);
        });
        std::memcpy(&sum, bed.probe.buffer_b().data(), 8);
        if (kind.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
            require(sum == adds, "{} FETCH_ADDs were done of {}", sum, adds);
    }
    ibv_cq *cq = a.send_cq.get();
    require(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq failed");
}

// A datagram may be lost, its completion not.
void datagrams(const Bed &bed)
{
    const Endpoint a = make_ud(bed.sides.a);
    const Endpoint b = make_ud(bed.sides.b);
    Buffer memory(page_size);
    const Mr mr = make_mr(bed.sides.a, memory.span(), IBV_ACCESS_LOCAL_WRITE);
    ibv_ah_attr attr = ah_attr(bed.sides.a, bed.sides.b.gid);
    const Ah ah(ibv_create_ah(bed.pd(), &attr));
    require(static_cast<bool>(ah), "ibv_create_ah: {}", std::strerror(errno));
    std::array sges{sge_of(memory.span(0, 500), mr.get())};
    ibv_send_wr wr{};
    wr.sg_list = sges.data();
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {.ah = ah.get(), .remote_qpn = b.qp->qp_num, .remote_qkey = qkey};
    fail_each_allocation("post datagram", [&] {
        ibv_send_wr *bad = nullptr;
        return ibv_post_send(a.qp.get(), &wr, &bad);
    }, [&] {
        post_send(a.qp.get(), wr);
        for (int i = 0; i < 2; i++)
            check_wc(must_poll(a.send_cq.get(), "datagram"), IBV_WC_SUCCESS, 0, a.qp.get(), "datagram");
    });
}

// --- links

// A netdev with addresses in this namespace, for a link of its own.
struct Netdev {
    const std::string name = "rvfaults";

    Netdev()
    {
        run_ip("", {"link", "add", name, "mtu", "4200", "type", "dummy"});
        run_ip("", {"addr", "add", "10.72.0.1/24", "dev", name});
        run_ip("", {"addr", "add", "fd72::1/64", "dev", name, "nodad"});
        run_ip("", {"link", "set", name, "up"});
    }
    ~Netdev()
    {
        try {
            run_ip("", {"link", "del", name});
        } catch (const std::exception &error) {
            report_failure(error.what());
        }
    }
    Netdev(const Netdev &) = delete;
    Netdev &operator=(const Netdev &) = delete;
};

void remove_link(RdmaNetlink &netlink, const std::string &device)
{
    const auto index = netlink.device_index(device);
    if (!index)
        return;
    const int error = netlink.del_link(*index);
    require(!error, "deleting the link: {}", std::strerror(error));
    require(!netlink.device_index(device), "the deleted link is still there");
}

// A link like any other: an RC QP of it talks to another of it.
void link_works(const Bed &bed, const std::string &device)
{
    Options options = bed.options;
    options.dev_a = options.dev_b = device;
    options.gid_a = options.gid_b = -1;
    Sides sides = open_sides(options);
    require(wait_until(milliseconds(3000), [&] { return !usable_kinds(sides, options).empty(); }),
            "the link gets no GIDs");
    select_default_gids(sides, options);
    Probe(sides, bed.link).works();
}

void links(const Bed &bed)
{
    const Netdev netdev;
    const std::string device = "rvfaults_0";
    RdmaNetlink netlink;
    int error = 0;
    fail_each_allocation("add link", [&] {
        error = netlink.add_link(device, bed.more.link_type, netdev.name);
        return error;
    }, [&] {
        // ENOBUFS: the answer got lost, or the question did
        if (error && error != ENOBUFS)
            require(!netlink.device_index(device), "a link that could not be made is there");
        remove_link(netlink, device);
    }, {ENOBUFS});

    const auto add = [&] {
        if (netlink.device_index(device))
            return;
        const int made = netlink.add_link(device, bed.more.link_type, netdev.name);
        require(!made, "adding the link: {}", std::strerror(made));
    };
    add();
    uint32_t index = *netlink.device_index(device);
    fail_each_allocation("delete link", [&] { return netlink.del_link(index); }, [&] {
        add();
        index = netlink.device_index(device).value();
    }, {ENOBUFS});
    link_works(bed, device);
    remove_link(netlink, device);
}

// --- traffic

// Messages both ways, WRITEs and READs beside them, while allocations fail. All of it must be right.
void traffic(const Bed &bed, const RandomFaults::Odds &odds)
{
    constexpr uint32_t length = 9000;
    constexpr int rounds = 300;
    Link link = bed.link;
    // Faults come in strings of all lengths: only their end shows whether data is lost.
    link.retry_cnt = 7;
    link.timeout = 12;
    Pair pair = make_pair(bed.sides, link);
    Buffer a(2 * length);
    Buffer b(2 * length);
    std::vector<std::byte> want(length);
    const Mr mr_a = make_mr(bed.sides.a, a.span(), all_access);
    const Mr mr_b = make_mr(bed.sides.b, b.span(), all_access);
    const uint64_t lost = hw_counter(bed.sides.a, "tx_dropped") + hw_counter(bed.sides.b, "tx_dropped");
    std::memset(a.data(), 0, a.size());
    std::memset(b.data(), 0, b.size());
    std::array landing{sge_of(b.span(0, length), mr_b.get())};
    std::array source{sge_of(a.span(0, length), mr_a.get())};
    std::array back{sge_of(a.span(length, length), mr_a.get())};

    RandomFaults faults(odds);
    for (int round = 0; round < rounds; round++) {
        note(fmt::format("round {} of {}", round, rounds));
        const uint64_t seed = bed.options.seed + static_cast<uint64_t>(round);
        fill_pattern(want, seed);
        std::memcpy(a.data(), want.data(), length);
        post_recv(pair.b.qp.get(), 1, landing);
        ibv_send_wr send{};
        send.wr_id = 1;
        send.sg_list = source.data();
        send.num_sge = 1;
        send.opcode = IBV_WR_SEND;
        send.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr read = send;
        read.wr_id = 2;
        read.sg_list = back.data();
        read.opcode = IBV_WR_RDMA_READ;
        read.wr.rdma = {.remote_addr = reinterpret_cast<uintptr_t>(b.data()), .rkey = mr_b->rkey};
        for (ibv_send_wr *wr : {&send, &read}) {
            ibv_send_wr *bad = nullptr;
            const int error = ibv_post_send(pair.a.qp.get(), wr, &bad);
            // The doorbell got no memory: the request is in the ring and goes with the next one.
            require(!error || error == ENOMEM, "ibv_post_send: {}", std::strerror(error));
        }
        std::optional<ibv_wc> wc;
        for (const uint64_t id : {1, 2}) {
            // an empty one rings again for requests whose doorbell was lost
            while (!(wc = poll_for(pair.a.send_cq.get(), milliseconds(300))) || wc->wr_id == 3) {
                ibv_send_wr ring = send;
                ibv_send_wr *bad = nullptr;
                ring.wr_id = 3;
                ring.num_sge = 0;
                ring.opcode = IBV_WR_RDMA_WRITE;
                if (!wc)
                    ibv_post_send(pair.a.qp.get(), &ring, &bad);
            }
            check_wc(*wc, IBV_WC_SUCCESS, id, pair.a.qp.get(), "request");
        }
        check_wc(must_poll(pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, 1, pair.b.qp.get(), "receive");
        require(!std::memcmp(b.data(), want.data(), length), "the message of round {} is wrong", round);
        require(!std::memcmp(a.data() + length, want.data(), length), "READ of round {} is wrong", round);
    }
    faults.stop();
    const uint64_t dropped = hw_counter(bed.sides.a, "tx_dropped") +
        hw_counter(bed.sides.b, "tx_dropped") - lost;
    diag(fmt::format("{} slab and {} page faults, {} packets not sent", faults.slab_faults(),
                     faults.page_faults(), dropped));
    require(faults.slab_faults() > 0 && dropped > 0, "no packet was hit");
}

void add_cases(Ktap &ktap, const Options &options, const More &more, const Sides &sides)
{
    const Link link = link_from(options);
    const auto add = [&](const char *name, void (*body)(const Bed &), int limit_s = 120) {
        ktap.add(name, [&options, &more, &sides, link, body] {
            const Balance balance(options);
            {
                Probe probe(sides, link);
                const Bed bed{options, more, sides, link, probe};
                body(bed);
                probe.works();
            }
            balance.must_hold();
        }, limit_s);
    };
    add("contexts", contexts);
    add("protection_domains", protection_domains);
    add("memory_regions", memory_regions);
    add("reregistrations", reregistrations);
    add("on_demand", on_demand);
    add("dmabuf_regions", dmabuf_regions);
    add("counters", counters);
    add("completion_queues", completion_queues);
    add("shared_receive_queues", shared_receive_queues);
    add("queue_pairs", queue_pairs);
    add("modify_rc", [](const Bed &b) { modify_steps(b, IBV_QPT_RC); });
    add("modify_uc", [](const Bed &b) { modify_steps(b, IBV_QPT_UC); });
    add("modify_ud", [](const Bed &b) { modify_steps(b, IBV_QPT_UD); });
    add("address_handles", address_handles);
    add("memory_windows", memory_windows);
    add("multicast", multicast);
    add("posted_requests", posted_requests);
    add("datagrams", datagrams);
    add("links", links, 400);
    add("traffic_any_context", [](const Bed &b) {
        traffic(b, {.slab = 3, .page = 10, .atomic_only = true});
    });
    add("traffic_this_thread", [](const Bed &b) {
        traffic(b, {.slab = 20, .page = 20, .this_thread = true});
    });
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    More more;
    CLI::App app("Makes the kernel's allocations fail, one after the other, in each verb.");
    add_common_options(app, options);
    app.add_option("--link-type", more.link_type, "of the link that is added and deleted");
    CLI11_PARSE(app, argc, argv);
    settle_options("alloc_faults", options);
    if (!faults_available()) {
        fmt::print("1..0 # SKIP this kernel has no fault injection for slab and pages\n");
        return 4;
    }
    Ktap ktap;
    Sides sides;
    try {
        sides = open_sides(options);
        select_default_gids(sides, options);
        allow_faults();
        add_cases(ktap, options, more, sides);
        return ktap.run(options.filters, options.list, options.case_limit_s);
    } catch (const std::exception &error) {
        fmt::print("Bail out! {}\n", error.what());
        return 1;
    }
}

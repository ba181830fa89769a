// NCCL API, "Group Calls", "Point To Point Communication Functions", "Collective Communication
// Functions".
#include <algorithm>  // find
#include <utility>    // exchange, move

#include "nccl_state.hpp"

namespace gx::nccl_testing {

Group& Nccl::group() {
    thread_local Group mine;
    if (mine.generation != r.generation) mine = {.generation = r.generation};
    return mine;
}

// "Thread Safety": NCCL primitives are not thread-safe; threads use communicators of their own.
void Nccl::acquire(ncclComm& c, const std::string& call) {
    if (c.uses > 0 && c.user != std::this_thread::get_id())
        r.stop(call + " of " + c.name + " while another thread is inside of " + c.used_by +
               " with it. Use a communicator in one thread at a time.");
    ++c.uses;
    c.user = std::this_thread::get_id();
    c.used_by = call;
}

namespace {

void expect_buffer(Runtime& r, const ncclComm& c, const std::string& call, const Use& use) {
    if (use.bytes == 0) return;
    const std::string what = call + " by " + c.name;
    const auto* const a = r.memory.find(use.begin);
    if (a != nullptr && a->kind != cuda_testing::Allocation::Kind::device)
        r.stop(what + (use.writes ? " writes " : " reads ") + a->name +
               ". Give it memory of its device.");
    r.expect_usable(what, use, c.device, Runtime::When::queued);
}

CUstream_st& stream_of(Runtime& r, const ncclComm& c, cudaStream_t stream,
                       const std::string& call) {
    const bool is_default = stream == nullptr || stream == cudaStreamLegacy;
    CUstream_st& s = is_default ? *r.devices[static_cast<std::size_t>(c.device)].default_stream
                                : r.stream_of(stream, call);
    if (s.device != c.device)
        r.stop(call + " by " + c.name + ", of device " + std::to_string(c.device) + ", in " +
               s.name + ". Use a stream of the communicator's device.");
    return s;
}

void expect_arguments(Runtime& r, const ncclComm& c, const std::string& call, const Part& p) {
    const bool names_rank = p.is_message() || p.kind == Part::Kind::broadcast;
    if (names_rank && (p.peer < 0 || p.peer >= c.ranks))
        r.stop(call + " by " + c.name + (p.is_message() ? " with peer " : " with root ") +
               std::to_string(p.peer) + ", and there are " + std::to_string(c.ranks) + " ranks.");
    const std::size_t size = bytes_of(p.type);
    if (size == 0)
        r.stop(call + " by " + c.name + " of " + name_of(p.type) + ", which is no type.");
    const bool sums = p.kind == Part::Kind::all_reduce || p.kind == Part::Kind::reduce_scatter;
    if (sums && (p.op < ncclSum || p.op >= ncclNumOps))
        r.stop(call + " by " + c.name + " with " + name_of(p.op) + ": the double has five.");
    if (sums && (p.type == ncclFloat8e4m3 || p.type == ncclFloat8e5m2))
        r.stop(call + " by " + c.name + " of " + name_of(p.type) +
               ": the double cannot sum these.");
    if (p.count > PTRDIFF_MAX / size / static_cast<std::size_t>(c.ranks))
        r.stop(call + " by " + c.name + " of " + std::to_string(p.count) + " elements.");
    const bool reads =
        p.kind != Part::Kind::receive && (p.kind != Part::Kind::broadcast || p.peer == c.rank);
    if (p.count > 0 &&
        ((reads && p.in == nullptr) || (p.kind != Part::Kind::send && p.out == nullptr)))
        r.stop(call + " by " + c.name + " with a buffer that is a null pointer.");
    expect_buffer(r, c, call, read_of(p, c.ranks));
    expect_buffer(r, c, call, write_of(p, c.ranks));
}

}  // namespace

ncclResult_t Nccl::add(const std::string& call, ncclComm_t handle, cudaStream_t stream, Part part) {
    ncclComm& c = ready_comm(handle, call);
    if (c.aborted) r.stop(call + " by " + c.name + ", which was shrunk with NCCL_SHRINK_ABORT.");
    if (c.dead) return ncclSystemError;
    CUstream_st& s = stream_of(r, c, stream, call);
    if (part.kind == Part::Kind::broadcast && part.peer != c.rank) part.in = nullptr;
    expect_arguments(r, c, call, part);
    Group& g = group();
    if (const ncclResult_t error = std::exchange(c.refuses, ncclSuccess); error != ncclSuccess) {
        if (g.depth > 0) g.refused = error;
        return error;
    }
    if (!g.joins.empty())
        r.stop(call +
               " in a group that has an init: init and communication do not go together "
               "(nccl.h, \"Group semantics\").");
    acquire(c, g.depth > 0 ? "a group" : call);
    g.calls.push_back({&c, &s, std::move(part)});
    return g.depth > 0 ? ncclSuccess : close_group(call);
}

/// Launches what the group has, a kernel for each communicator, in the order of their first calls.
ncclResult_t Nccl::close_group(const std::string& call) {
    Group& g = group();
    const auto calls = std::exchange(g.calls, {});
    const auto joins = std::exchange(g.joins, {});
    g.joins_block.reset();
    for (const Group::Call& one : calls) release(*one.comm);
    if (const ncclResult_t refused = std::exchange(g.refused, ncclSuccess); refused != ncclSuccess)
        return refused;
    ncclResult_t result = ncclSuccess;
    std::vector<ncclComm*> order;
    for (const Group::Call& one : calls)
        if (std::ranges::find(order, one.comm) == order.end()) order.push_back(one.comm);
    for (ncclComm* const c : order) {
        std::vector<Part> parts;
        std::vector<CUstream_st*> streams;
        for (const Group::Call& one : calls) {
            if (one.comm != c) continue;
            parts.push_back(one.part);
            if (std::ranges::find(streams, one.stream) == streams.end())
                streams.push_back(one.stream);
        }
        c->polls_left = c->blocking ? 0 : draw_polls();
        if (c->polls_left == 0) {
            launch(*c, std::move(parts), streams);
            continue;
        }
        --c->polls_left;
        c->later = [this, c, parts = std::move(parts), streams] { launch(*c, parts, streams); };
        result = ncclInProgress;
    }
    for (const auto& [c, handle] : joins) {
        if (!c->blocking) {
            result = ncclInProgress;
            continue;
        }
        if (const ncclResult_t one = await(*c, handle, call); one != ncclSuccess) result = one;
    }
    return result;
}

}  // namespace gx::nccl_testing

using namespace gx::nccl_testing;

// "ncclGroupStart": groups nest; the outermost end counts. Of the host: a GPU may have failed.
ncclResult_t ncclGroupStart() {
    return nccl_call("ncclGroupStart", {.fails_with_device = false}, [](Nccl& n) {
        ++n.group().depth;
        n.open_groups[std::this_thread::get_id()] = n.group().depth;
        return ncclSuccess;
    });
}

// "ncclGroupEnd": returns when the operations are enqueued, or with ncclInProgress where one of the
// communicators is non-blocking: then streams are used behind its ncclSuccess only. Where the
// current GPU has failed, the group is over, and its calls are dropped.
ncclResult_t ncclGroupEnd() {
    return nccl_call("ncclGroupEnd", {.fails_with_device = false}, [](Nccl& n) {
        if (n.group().depth == 0) n.r.stop("ncclGroupEnd without ncclGroupStart in this thread.");
        if (--n.group().depth > 0) return ncclSuccess;
        n.open_groups.erase(std::this_thread::get_id());
        Group& g = n.group();
        const bool failed = n.r.device_error(host_thread(n.r).device) != cudaSuccess;
        if (failed && !(g.calls.empty() && g.joins.empty()) && g.refused == ncclSuccess)
            g.refused = ncclUnhandledCudaError;
        return n.close_group("ncclGroupEnd");
    });
}

// "ncclSend", "ncclRecv": block the GPU until the peer's partner has come; several that need each
// other go in one group. Small messages may be done before (not here).
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    return nccl_call("ncclSend", {}, [&](Nccl& n) {
        return n.add(
            "ncclSend", comm, stream,
            {.kind = Part::Kind::send, .in = sendbuff, .count = count, .type = type, .peer = peer});
    });
}
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return nccl_call("ncclRecv", {}, [&](Nccl& n) {
        return n.add("ncclRecv", comm, stream,
                     {.kind = Part::Kind::receive,
                      .out = recvbuff,
                      .count = count,
                      .type = type,
                      .peer = peer});
    });
}

// "ncclAllReduce": identical results on all ranks; the order of the sums is not promised.
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return nccl_call("ncclAllReduce", {}, [&](Nccl& n) {
        return n.add("ncclAllReduce", comm, stream,
                     {.kind = Part::Kind::all_reduce,
                      .in = sendbuff,
                      .out = recvbuff,
                      .count = count,
                      .type = type,
                      .op = op});
    });
}

// "ncclBroadcast": sendbuff is read on the root alone.
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
    return nccl_call("ncclBroadcast", {}, [&](Nccl& n) {
        return n.add("ncclBroadcast", comm, stream,
                     {.kind = Part::Kind::broadcast,
                      .in = sendbuff,
                      .out = recvbuff,
                      .count = count,
                      .type = type,
                      .peer = root});
    });
}

// "ncclAllGather": in place where sendbuff == recvbuff + rank * sendcount.
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
    return nccl_call("ncclAllGather", {}, [&](Nccl& n) {
        return n.add("ncclAllGather", comm, stream,
                     {.kind = Part::Kind::all_gather,
                      .in = sendbuff,
                      .out = recvbuff,
                      .count = sendcount,
                      .type = type});
    });
}

// "ncclReduceScatter": in place where recvbuff == sendbuff + rank * recvcount.
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
    return nccl_call("ncclReduceScatter", {}, [&](Nccl& n) {
        return n.add("ncclReduceScatter", comm, stream,
                     {.kind = Part::Kind::reduce_scatter,
                      .in = sendbuff,
                      .out = recvbuff,
                      .count = recvcount,
                      .type = type,
                      .op = op});
    });
}

// NCCL API, "Communicator Creation and Management Functions".
#include <unistd.h>  // getpid

#include <algorithm>  // find, sort
#include <cstring>    // memcpy
#include <limits>     // numeric_limits
#include <utility>    // exchange

#include "nccl_state.hpp"

namespace gx::nccl_testing {

namespace {

/// Of the host alone: whatever has become of a GPU.
constexpr CallRules plain{.fails_with_device = false};
constexpr CallRules makes{.unsafe_in_capture = true};  // it allocates
constexpr CallRules frees{.unsafe_in_capture = true, .frees = true};

bool is_blocking(const ncclConfig_t* config, const ncclComm* parent) {
    if (config != nullptr && config->blocking != NCCL_CONFIG_UNDEF_INT)
        return config->blocking != 0;
    return config != nullptr || parent == nullptr || parent->blocking;
}

/// "Not initialized config will result in NCCL error" (nccl.h); and `blocking` is 0, 1 or not set.
bool is_valid(const ncclConfig_t* config) {
    constexpr ncclConfig_t right = NCCL_CONFIG_INITIALIZER;
    if (config == nullptr) return true;
    if (config->size != right.size || config->magic != right.magic) return false;
    const int blocking = config->blocking;
    return blocking == 0 || blocking == 1 || blocking == NCCL_CONFIG_UNDEF_INT;
}

std::string missing_ranks(const Join& j) {
    std::string text;
    if (j.kind == Join::Kind::shrink)
        return std::to_string(j.expected - static_cast<int>(j.ranks.size())) + " more ranks";
    for (int rank = 0; rank < j.expected; ++rank)
        if (std::ranges::find(j.ranks, rank, &Join::Rank::rank) == j.ranks.end())
            text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
    return text.empty() ? "a rank that failed" : text;
}

}  // namespace

// ---- Handles ---------------------------------------------------------------------------------

ncclComm& Nccl::comm_of(ncclComm_t handle, const std::string& call) {
    if (!handles.contains(handle))
        r.stop(call + ": a communicator that was never made, or before the last reset.");
    if (!handle->ended_by.empty())
        r.stop(call + ": " + handle->name + " was ended by " + handle->ended_by + ".");
    return *handle;
}

// "Creating a communication with options": other calls wait until the state is ncclSuccess.
ncclComm& Nccl::ready_comm(ncclComm_t handle, const std::string& call) {
    ncclComm& c = comm_of(handle, call);
    if (c.state == State::joining || c.state == State::connecting || c.later || c.child)
        r.stop(call + ": " + c.name +
               " is in progress. Poll ncclCommGetAsyncError until it is not ncclInProgress.");
    if (c.state == State::failed)
        r.stop(call + ": " + c.name + " has failed (" + c.reason + "). Abort it.");
    if (c.state == State::finalizing || c.state == State::finalized)
        r.stop(call + ": " + c.name + " was finalized.");
    return c;
}

ncclComm& Nccl::make_comm(const std::string& name, int device, const ncclConfig_t* config,
                          const ncclComm* parent) {
    ncclComm& c = comms.emplace_back();
    c.name = name;
    c.device = device;
    c.blocking = is_blocking(config, parent);
    handles.insert(&c);
    return c;
}

void Nccl::end(ncclComm& c, const std::string& call) {
    c.state = State::ended;
    c.ended_by = call;
    c.later = nullptr;
    if (const auto child = std::exchange(c.child, std::nullopt)) end(*child->comm, call);
    tell_end(c);
}

// ---- Ranks meet ------------------------------------------------------------------------------

void Nccl::join(ncclComm* comm, const std::shared_ptr<Join>& j, Join::Rank rank) {
    rank.comm = comm;
    if (comm != nullptr) comm->join = j;
    if (hanging_init.fires()) j->hangs = true;
    if (failing_init.fires()) {
        j->hangs = true;
        if (comm != nullptr) {
            comm->state = State::failed;
            fail(*comm, init_error, ncclGetErrorString(init_error));
        }
        return;
    }
    tell_join(*j, rank);
    take_part(*j, rank);
}

void Nccl::take_part(Join& j, const Join::Rank& rank) {
    j.ranks.push_back(rank);
    if (static_cast<int>(j.ranks.size()) == j.expected && !j.hangs) complete(j);
}

void Nccl::fail_all(const Join& j, ncclResult_t error, const std::string& text) {
    for (const Join::Rank& one : j.ranks) {
        if (one.comm == nullptr) continue;
        one.comm->state = State::failed;
        fail(*one.comm, error, text);
    }
}

void Nccl::fail(ncclComm& c, ncclResult_t error, const std::string& reason_of_it) {
    c.error = error;
    c.reason = last_error = reason_of_it;
}

// "ncclCommInitRankConfig", and by its config "ncclCommSplit": one that does not block is in
// progress until ncclCommGetAsyncError on itself says ncclSuccess, and is not used before.
void Nccl::make_clique(std::vector<ncclComm*> members, const std::string& key, Join::Kind kind) {
    const auto clique = std::make_shared<Clique>();
    clique->number = ++cliques;
    clique->members = std::move(members);
    clique->key = key;
    clique->wire = clique->members[0]->wire;
    if (clique->wire) cliques_of_processes[key] = clique;
    for (std::size_t i = 0; i < clique->members.size(); ++i) {
        ncclComm& c = *clique->members[i];
        c.clique = clique;
        c.rank = static_cast<int>(i);
        c.ranks = static_cast<int>(clique->members.size());
        c.state = c.blocking ? State::ready : State::connecting;
        if (kind == Join::Kind::init || c.blocking) c.polls_left = 0;
        else if (hanging_parts.contains(c.device)) c.polls_left = std::numeric_limits<int>::max();
        else c.polls_left = draw_polls();
        c.name = "rank " + std::to_string(i) + " of communicator " + std::to_string(clique->number);
    }
}

void Nccl::complete(Join& j) {
    j.done = true;
    std::ranges::sort(j.ranks, [](const Join::Rank& a, const Join::Rank& b) {
        return std::tuple(a.color, a.key, a.rank) < std::tuple(b.color, b.key, b.rank);
    });
    for (const Join::Rank& a : j.ranks)
        for (const Join::Rank& b : j.ranks) {
            if (a.comm == nullptr || b.comm == nullptr || a.rank >= b.rank || a.color != b.color)
                continue;
            const int first = bus_of(*a.comm), second = bus_of(*b.comm);
            const std::string ranks =
                "ranks " + std::to_string(a.rank) + " and " + std::to_string(b.rank);
            if (first == second)
                return fail_all(j, ncclInvalidUsage,
                                "Duplicate GPU detected : " + ranks + " both on CUDA device " +
                                    std::to_string(first - r.options.first_bus));
            if (unreachable.contains(std::minmax(a.comm->device, b.comm->device)))
                return fail_all(j, ncclSystemError, "no connection between " + ranks);
        }
    for (std::size_t i = 0; i < j.ranks.size();) {
        std::vector<ncclComm*> members;
        const int color = j.ranks[i].color;
        for (; i < j.ranks.size() && j.ranks[i].color == color; ++i)
            if (j.ranks[i].comm != nullptr) members.push_back(j.ranks[i].comm);
        if (!members.empty())
            make_clique(std::move(members), j.key + ":" + std::to_string(color), j.kind);
    }
}

ncclResult_t Nccl::await(ncclComm& c, ncclComm_t* handle, const std::string& call) {
    while (c.state == State::joining) {
        if (r.stopped) return ncclUnhandledCudaError;
        acquire(c, call);
        try {
            r.sleep(call + " by " + c.name + " for " + missing_ranks(*c.join),
                    [&] { return c.state != State::joining; });
        } catch (...) {
            release(c);
            throw;
        }
        release(c);
    }
    if (c.aborted) return ncclInternalError;
    if (c.state != State::failed) return ncclSuccess;
    const ncclResult_t error = c.error;
    reason = c.reason;
    end(c, call + ", which failed");
    *handle = nullptr;
    return error;
}

void Nccl::get_on(ncclComm& c, State next, ncclResult_t& error) {
    if (c.polls_left-- > 0) error = ncclInProgress;
    else c.state = next;
}

void Nccl::flush(ncclComm& c, const std::string& call) {
    std::vector<Point> points;
    for (const auto& [stream, point] : c.ends) points.push_back(point);
    while (!r.stopped && !is_over(c) && !std::ranges::all_of(points, Runtime::reached))
        if (!r.advance(points)) r.sleep(call + " of " + c.name, [&] { return r.advance(points); });
}

namespace {

/// "Blocking and nonblocking communicators are not allowed in the same group" (src/group.cc,
/// ncclAsyncLaunch): ncclInvalidArgument. A split or shrink counts as its parent.
void expect_one_kind(Nccl& n, const std::string& call, bool blocks) {
    Group& g = n.group();
    if (g.depth == 0) return;
    if (g.joins_block.value_or(blocks) != blocks)
        n.r.stop(call + " in a group that has an init or a split of one that " +
                 (blocks ? "does not block" : "blocks") +
                 ". Give those that block a group of their own.");
    g.joins_block = blocks;
}

ncclResult_t init_rank(Nccl& n, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config, const std::string& call) {
    Runtime& r = n.r;
    if (comm == nullptr || !is_valid(config)) return ncclInvalidArgument;
    if (n.refusing_init.fires()) return n.refused_with;
    if (ranks < 1 || rank < 0 || rank >= ranks)
        r.stop(call + ": rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
               " ranks. Ranks count from 0 to nranks - 1.");
    const std::string text(id.internal, sizeof id.internal);
    auto found = n.ids.find(text);
    if (found == n.ids.end() && n.options.processes) {
        found = n.ids.emplace(text, std::make_shared<Join>()).first;
        found->second->name = "the id of another process";
    }
    if (found == n.ids.end())
        r.stop(call + ": an id that ncclGetUniqueId did not return, or before the last reset.");
    const std::shared_ptr<Join> j = found->second;
    if (j->done)
        r.stop(call + ": " + j->name + " has made its communicator. Get another id for another.");
    if (!j->ranks.empty() && j->expected != ranks)
        r.stop(call + ": rank " + std::to_string(rank) + " joins " + j->name + " with " +
               std::to_string(ranks) + " ranks, and rank " + std::to_string(j->ranks[0].rank) +
               " with " + std::to_string(j->expected) + ". Give all the same count.");
    if (std::ranges::find(j->ranks, rank, &Join::Rank::rank) != j->ranks.end())
        r.stop(call + ": two ranks " + std::to_string(rank) + " join " + j->name +
               ". Give each rank its own number.");
    if (n.group().depth > 0 && !n.group().calls.empty())
        r.stop(call + " in a group that has " + name_of(n.group().calls[0].part.kind) +
               ": init and communication do not go together (nccl.h, \"Group semantics\").");
    expect_one_kind(n, call, is_blocking(config, nullptr));
    j->expected = ranks;
    if (n.options.processes) n.open_wire(j, text.c_str(), rank, call);
    ncclComm& c = n.make_comm("rank " + std::to_string(rank) + " of " + j->name,
                              cuda_testing::host_thread(r).device, config, nullptr);
    c.rank = c.on_wire = rank;
    c.ranks = ranks;
    c.wire = j->wire;
    *comm = &c;
    n.join(&c, j, {.rank = rank});
    if (n.group().depth > 0) {
        n.group().joins.emplace_back(&c, comm);
        return ncclSuccess;
    }
    return c.blocking ? n.await(c, comm, call) : ncclInProgress;
}

}  // namespace

}  // namespace gx::nccl_testing

using namespace gx::nccl_testing;

// ---- The library -----------------------------------------------------------------------------

// "ncclGetVersion": of the library that is linked; needs no device.
ncclResult_t ncclGetVersion(int* version) {
    if (version == nullptr) return ncclInvalidArgument;
    const auto r = gx::cuda_testing::the_runtime();
    const std::lock_guard lock(r->mutex);
    *version = nccl_of(*r).options.version;
    return ncclSuccess;
}

// "ncclGetErrorString": texts as NCCL 2.28 has them.
const char* ncclGetErrorString(ncclResult_t result) {
    switch (result) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError:
            return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case ncclSystemError:
            return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case ncclInternalError:
            return "internal error - please report this issue to the NCCL developers";
        case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
        default: return "unknown result code";
    }
}

// "ncclGetLastError": not cleared by the call; may be of an earlier asynchronous operation, and is
// of the last call that failed, with any communicator or none: NCCL does not use the argument.
const char* ncclGetLastError(ncclComm_t) {
    const auto r = gx::cuda_testing::the_runtime();
    const std::lock_guard lock(r->mutex);
    return nccl_of(*r).last_error.c_str();
}

// ---- Making communicators --------------------------------------------------------------------

// "ncclGetUniqueId": once for each communicator; its ranks are given it by other means.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    return nccl_call("ncclGetUniqueId", plain, [&](Nccl& n) {
        if (id == nullptr) return ncclInvalidArgument;
        const auto join = std::make_shared<Join>();
        join->name = "id " + std::to_string(n.ids.size() + 1);
        const std::string text =
            "gx::nccl_testing " + std::to_string(n.r.generation) + " " + join->name +
            (n.options.processes ? " of process " + std::to_string(::getpid()) : "");
        std::memset(id, 0, sizeof *id);
        std::memcpy(id->internal, text.data(), text.size());
        n.ids[std::string(id->internal, sizeof id->internal)] = join;
        return ncclSuccess;
    });
}

// "ncclCommInitRank": on the current device; synchronizes with the other ranks, so each is called
// from a thread of its own, or within a group.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
    return nccl_call("ncclCommInitRank", makes, [&](Nccl& n) {
        return init_rank(n, comm, nranks, id, rank, nullptr, "ncclCommInitRank");
    });
}

// "ncclCommInitRankConfig": with blocking = 0 it returns ncclInProgress, and the communicator may
// be used when ncclCommGetAsyncError says ncclSuccess. Other fields are not looked at.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    return nccl_call("ncclCommInitRankConfig", makes, [&](Nccl& n) {
        return init_rank(n, comm, nranks, id, rank, config, "ncclCommInitRankConfig");
    });
}

// "ncclCommInitAll": a clique of one process; devlist == nullptr: devices 0 to ndev - 1.
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist) {
    return nccl_call("ncclCommInitAll", makes, [&](Nccl& n) {
        if (comms == nullptr || ndev < 1) return ncclInvalidArgument;
        std::vector<int> devices;
        for (int i = 0; i < ndev; ++i) {
            devices.push_back(devlist != nullptr ? devlist[i] : i);
            if (devices.back() < 0 || devices.back() >= static_cast<int>(n.r.devices.size()))
                return ncclUnhandledCudaError;
        }
        const auto j = std::make_shared<Join>();
        j->name = "ncclCommInitAll";
        j->expected = ndev;
        for (int i = 0; i < ndev; ++i) {
            ncclComm& c = n.make_comm("rank " + std::to_string(i) + " of ncclCommInitAll",
                                      devices[static_cast<std::size_t>(i)], nullptr, nullptr);
            c.rank = i;
            c.ranks = ndev;
            comms[i] = &c;
            n.join(&c, j, {.rank = i});
        }
        ncclResult_t result = ncclSuccess;
        for (int i = 0; i < ndev; ++i)
            if (const ncclResult_t one = n.await(*comms[i], &comms[i], "ncclCommInitAll");
                one != ncclSuccess)
                result = one;
        return result;
    });
}

namespace {

ncclResult_t divide(Nccl& n, const std::string& call, ncclComm& parent, ncclComm_t* newcomm,
                    const ncclConfig_t* config, Join::Kind kind, int expected, Join::Rank rank,
                    const std::vector<int>& excluded) {
    expect_one_kind(n, call, parent.blocking);
    const bool is_shrink = kind == Join::Kind::shrink;
    const int number = is_shrink ? ++parent.shrinks : ++parent.splits;
    auto& j = parent.clique->joins[{is_shrink, number}];
    if (!j) {
        j = std::make_shared<Join>();
        j->kind = kind;
        j->name = (is_shrink ? "shrink " : "split ") + std::to_string(number) +
                  " of communicator " + std::to_string(parent.clique->number);
        j->expected = expected;
        j->excluded = excluded;
        if (parent.wire) {
            j->key =
                parent.clique->key + (is_shrink ? "/shrink" : "/split") + std::to_string(number);
            j->wire = parent.wire;
            n.joins_of_processes[j->key] = j;
        }
    }
    if (j->excluded != excluded)
        n.r.stop(call + " by " + parent.name +
                 ": it excludes other ranks than those before it. Give all the same list.");
    ncclComm* c = nullptr;
    *newcomm = nullptr;
    if (rank.color != NCCL_SPLIT_NOCOLOR) {
        c = &n.make_comm(parent.name + " in " + j->name, parent.device, config, &parent);
        c->wire = parent.wire;
        c->on_wire = parent.on_wire;
        *newcomm = c;
    }
    const std::shared_ptr<Join> mine = j;
    n.join(c, mine, rank);
    if (n.group().depth > 0) {
        if (c != nullptr) n.group().joins.emplace_back(c, newcomm);
        return ncclSuccess;
    }
    if (c != nullptr && c->blocking) return n.await(*c, newcomm, call);
    if (c != nullptr) {  // as NCCL, which stores the handle when all ranks have met
        *newcomm = nullptr;
        parent.child = {c, newcomm};
        return ncclInProgress;
    }
    while (parent.blocking && !mine->done && !n.r.stopped)
        n.r.sleep(call + " by " + parent.name + " for " + missing_ranks(*mine),
                  [&] { return mine->done; });
    return ncclSuccess;
}

}  // namespace

// "ncclCommSplit": by all ranks of the parent; ranks of a new one are ordered by key, then by rank.
// No operation of the parent may be outstanding, or it may deadlock.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
    return nccl_call("ncclCommSplit", makes, [&](Nccl& n) {
        if (newcomm == nullptr || !is_valid(config)) return ncclInvalidArgument;
        ncclComm& parent = n.ready_comm(comm, "ncclCommSplit");
        if (parent.dead) return ncclSystemError;
        if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
            n.r.stop("ncclCommSplit by " + parent.name + ": color " + std::to_string(color) +
                     ". Give one from 0, or NCCL_SPLIT_NOCOLOR.");
        for (const auto& [stream, point] : parent.ends)
            if (!Runtime::reached(point))
                n.r.stop("ncclCommSplit by " + parent.name +
                         " while operations of it are outstanding, with which it may deadlock. "
                         "Wait for them first.");
        n.acquire(parent, "ncclCommSplit");
        Nccl::release(parent);
        return divide(n, "ncclCommSplit", parent, newcomm, config, Join::Kind::split, parent.ranks,
                      {.rank = parent.rank, .color = color, .key = key}, {});
    });
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
// "ncclCommShrink": by the ranks that stay; NCCL_SHRINK_ABORT ends what the parent has in flight,
// and without it nothing may be.
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* newcomm,
                            ncclConfig_t* config, int flags) {
    return nccl_call("ncclCommShrink", makes, [&](Nccl& n) {
        if (newcomm == nullptr || excluded == nullptr || count < 1 || !is_valid(config))
            return ncclInvalidArgument;
        const bool aborts = flags == NCCL_SHRINK_ABORT;
        ncclComm& parent =
            aborts ? n.comm_of(comm, "ncclCommShrink") : n.ready_comm(comm, "ncclCommShrink");
        std::vector<int> list(excluded, excluded + count);
        std::ranges::sort(list);
        for (const int rank : list) {
            if (rank < 0 || rank >= parent.ranks)
                n.r.stop("ncclCommShrink by " + parent.name + " excludes rank " +
                         std::to_string(rank) + ", which it has not.");
            if (rank == parent.rank)
                n.r.stop("ncclCommShrink by " + parent.name +
                         ", which it excludes. Call it on the ranks that stay.");
        }
        if (!aborts && parent.running)
            n.r.stop("ncclCommShrink by " + parent.name + " while '" + parent.running->name +
                     "' runs. Wait for it, or give NCCL_SHRINK_ABORT.");
        if (aborts) {
            parent.aborted = true;
            parent.later = nullptr;
            n.withdraw(parent);
        }
        return divide(n, "ncclCommShrink", parent, newcomm, config, Join::Kind::shrink,
                      parent.ranks - static_cast<int>(list.size()),
                      {.rank = parent.rank, .key = parent.rank}, list);
    });
}
#endif

// ---- Their end -------------------------------------------------------------------------------

// "ncclCommFinalize": flushes all operations. A non-blocking one is in progress until then, as
// ncclCommGetAsyncError says.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    return nccl_call("ncclCommFinalize", frees, [&](Nccl& n) {
        if (comm == nullptr) return ncclSuccess;  // observed
        ncclComm& c = n.ready_comm(comm, "ncclCommFinalize");
        n.acquire(c, "ncclCommFinalize");
        Nccl::release(c);
        if (c.dead) return ncclSystemError;
        c.state = c.blocking ? State::finalized : State::finalizing;
        if (!c.blocking) {
            c.polls_left = n.draw_polls();
            return ncclInProgress;
        }
        n.flush(c, "ncclCommFinalize");
        return n.r.stopped ? ncclUnhandledCudaError : ncclSuccess;
    });
}

namespace {

/// NCCL waits until captures, graphs and instances that hold a communicator's kernels have ended.
void expect_in_no_graph(Nccl& n, const ncclComm& c, const std::string& call) {
    const auto expect_none = [&](const auto& nodes, const std::string& in,
                                 const std::string& remedy) {
        for (const auto& node : nodes)
            if (node.operation.owner == &c)
                n.r.stop(call + " of " + c.name + ", whose '" + node.operation.name + "' lies in " +
                         in + ". " + remedy + " first.");
    };
    for (const auto& open : n.r.captures)
        expect_none(open->nodes, "the capture of " + open->branches[0].stream->name, "End it");
    for (const CUgraph_st& g : n.r.graphs)
        if (g.ended_by.empty()) expect_none(*g.nodes, g.name, "Destroy the graph");
    for (const CUgraphExec_st& g : n.r.executables)
        if (g.ended_by.empty()) expect_none(*g.nodes, g.name, "Destroy the graph");
}

}  // namespace

// "ncclCommDestroy": finalizes where that was not done. "Error handling and communicator
// destruction": waits for operations, and not for other ranks. Behind a call of ncclCommFinalize
// "users should guarantee that the state of the communicator becomes ncclSuccess" first. Graphs
// that hold its kernels must be destroyed before (observed: it waits for them for ever).
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    return nccl_call("ncclCommDestroy", frees, [&](Nccl& n) {
        if (comm == nullptr) return ncclSuccess;  // observed
        ncclComm& c = n.comm_of(comm, "ncclCommDestroy");
        if (c.state == State::finalizing && !c.aborted)
            n.r.stop("ncclCommDestroy: the finalization of " + c.name +
                     " is in progress. Poll ncclCommGetAsyncError until it is not ncclInProgress.");
        if (c.state != State::finalized && !c.aborted) (void)n.ready_comm(comm, "ncclCommDestroy");
        n.acquire(c, "ncclCommDestroy");
        Nccl::release(c);
        if (!c.registered.empty())
            n.r.stop("ncclCommDestroy of " + c.name + ", which has " +
                     std::to_string(c.registered.size()) +
                     " registered buffers. Deregister them first.");
        expect_in_no_graph(n, c, "ncclCommDestroy");
        n.flush(c, "ncclCommDestroy");
        n.end(c, "ncclCommDestroy");
        return ncclSuccess;
    });
}

// "ncclCommAbort": ends operations on the device; may be called by another thread than the one that
// is inside of a call. Captures and graphs that hold its kernels must have ended, as for a destroy
// (src/init.cc, commDestroySync: "keep polling until all graphs referencing us die").
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    return nccl_call("ncclCommAbort", {.frees = true}, [&](Nccl& n) {
        if (comm == nullptr) return ncclSuccess;  // observed
        ncclComm& c = n.comm_of(comm, "ncclCommAbort");
        expect_in_no_graph(n, c, "ncclCommAbort");
        if (c.join && c.state == State::joining) c.join->hangs = true;
        c.aborted = true;
        n.withdraw(c);
        n.end(c, "ncclCommAbort");
        return ncclSuccess;
    });
}

// "ncclCommGetAsyncError": ncclInProgress while a non-blocking call works; a communicator with an
// error must be aborted.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    return nccl_call("ncclCommGetAsyncError", plain, [&](Nccl& n) {
        if (error == nullptr) return ncclInvalidArgument;
        ncclComm& c = n.comm_of(comm, "ncclCommGetAsyncError");
        ++n.counts.polls;
        *error = c.error;
        if (c.dead) *error = ncclSystemError;
        if (c.clique)
            for (const ncclComm* const peer : c.clique->members)
                if (n.has_died(*peer) && *error == ncclSuccess) {
                    *error = ncclRemoteError;
                    n.last_error =
                        "remote process exited or there was a network error: " + peer->name;
                }
        if (*error != ncclSuccess) return ncclSuccess;
        if (c.state == State::joining) *error = ncclInProgress;
        if (c.state == State::connecting) n.get_on(c, State::ready, *error);
        if (c.child && c.child->comm->state == State::joining) *error = ncclInProgress;
        else if (c.child) *c.child->to = c.child->comm, c.child.reset();
        if (c.later && c.polls_left-- > 0) *error = ncclInProgress;
        else if (c.later) std::exchange(c.later, nullptr)();
        if (c.state == State::finalizing) {
            std::vector<Point> points;
            for (const auto& [stream, point] : c.ends) points.push_back(point);
            if (std::ranges::all_of(points, Runtime::reached)) {
                n.get_on(c, State::finalized, *error);
            } else {
                n.r.advance(points);
                *error = ncclInProgress;
            }
        }
        return ncclSuccess;
    });
}

// ---- What they are ---------------------------------------------------------------------------

// "ncclCommCount"
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
    return nccl_call("ncclCommCount", plain, [&](Nccl& n) {
        if (count == nullptr) return ncclInvalidArgument;
        *count = n.ready_comm(comm, "ncclCommCount").ranks;
        return ncclSuccess;
    });
}
// "ncclCommUserRank"
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
    return nccl_call("ncclCommUserRank", plain, [&](Nccl& n) {
        if (rank == nullptr) return ncclInvalidArgument;
        *rank = n.ready_comm(comm, "ncclCommUserRank").rank;
        return ncclSuccess;
    });
}
// "ncclCommCuDevice"
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
    return nccl_call("ncclCommCuDevice", plain, [&](Nccl& n) {
        if (device == nullptr) return ncclInvalidArgument;
        *device = n.ready_comm(comm, "ncclCommCuDevice").device;
        return ncclSuccess;
    });
}

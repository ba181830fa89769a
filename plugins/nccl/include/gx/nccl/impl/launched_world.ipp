// Meeting: rendezvous, GPUs, and the end of a run.
#pragma once

#include <algorithm>  // max, min
#include <cstring>    // memcpy
#include <map>        // GPUs

#include <gx/coordination/process_run.hpp>  // ProcessRun
#include <gx/core/error.hpp>                // Error
#include <gx/cuda/error.hpp>                // device_count, expect
#include <gx/nccl/error.hpp>                // expect_version
#include <gx/nccl/launched_world.hpp>       // the declarations

namespace gx::nccl {

namespace detail::launched {

/// A board's link to those of the other processes.
class SessionLink final : public BoardLink {
public:
    explicit SessionLink(coordination::Session& session) : session_(session) {}

    int agree(int lost) override {
        if (!session_.cause().stopped()) {
            if (lost < 0 || lost == session_.rank()) session_.fail("");
            else session_.blame(lost);
        }
        return session_.await_cause().rank;
    }
    int lost() override { return session_.cause().rank; }
    bool threw() override {
        const auto reason = session_.cause().reason;
        return reason == coordination::Reason::error || reason == coordination::Reason::mismatch;
    }
    void tell(const std::string& row) override {
        const auto bytes = std::as_bytes(std::span(row));
        session_.note({bytes.begin(), bytes.end()});
    }
    void working_on(const Operation& operation) override { session_.working_on(operation); }

private:
    coordination::Session& session_;
};

inline std::string name_of(const coordination::Launch& l) {
    return "rank " + std::to_string(l.rank) + " of " + std::to_string(l.ranks) + ", started by " +
           l.launcher;
}

[[noreturn]] inline void refuse_address(const coordination::Launch& l, std::string what) {
    if (what.ends_with('.')) what.pop_back();
    throw Error(name_of(l) + ": " + what +
                ". MASTER_ADDR names the host of rank 0, and GX_PORT a port that is free there "
                "(else it is MASTER_PORT + 1: if another program has taken that one, start again, "
                "or set GX_PORT)" +
                (l.rank == 0 ? "" : "; if rank 0 has ended, look at its own error"));
}

/// f(), whose errors are of the address of rank 0.
template <class F>
auto at_address(const coordination::Launch& l, F f) {
    try {
        return f();
    } catch (const coordination::NoDescriptorLeft& e) {
        throw Error(name_of(l) + ": " + e.what());
    } catch (const Error& e) {
        refuse_address(l, e.what());
    }
}

/// Waits for all ranks. Another program may have answered in place of rank 0.
inline coordination::Roster join(coordination::Session& session, const coordination::Launch& l) {
    try {
        return session.join();
    } catch (const Error& e) {
        const coordination::Cause cause = session.cause();
        if (l.rank == 0 || cause.rank != 0 || cause.observer != l.rank) throw;
        refuse_address(l, "at address '" + l.address + "', " + e.what());
    }
}

inline std::unique_ptr<coordination::Session> session_of(const LaunchedOptions& o, int run) {
    const coordination::Launch& l = o.launch;
    coordination::Session::Options options{
        .run_id = l.run_id + " run " + std::to_string(run),
        .rank = l.rank,
        .ranks = l.ranks,
        .local_rank = l.local_rank,
        .host = l.node.empty() ? coordination::host_name() : l.node,
        .join_deadline = o.join_deadline,
        // A busy machine may not run a process for a while that is well.
        .silence = std::max<std::chrono::nanoseconds>(o.deadline, std::chrono::seconds(10)),
        .regroups = true};
    if (l.rank == 0)
        return std::make_unique<coordination::Session>(
            std::move(options), std::vector<coordination::Descriptor>{},
            at_address(l, [&] { return coordination::Listener(l.listens); }));
    return std::make_unique<coordination::Session>(
        std::move(options),
        at_address(l, [&] { return coordination::connect_to(l.address, o.join_deadline); }));
}

/// This process's GPU. Errors: gx::Error where there is none for it.
inline int gpu_of(const LaunchedOptions& o, int local_rank) {
    expect_version();
    const int gpus = cuda::device_count();
    const std::string sees = ", and its process sees " + std::to_string(gpus) + " GPUs";
    if (o.gpu >= gpus)
        throw Error("it is given GPU " + std::to_string(o.gpu) + sees + ": GPUs count from 0");
    if (o.gpu >= 0) return o.gpu;
    if (gpus == 1) return 0;  // the launcher hides the others, or the next check names the ranks
    if (local_rank < gpus) return local_rank;
    throw Error("it has local rank " + std::to_string(local_rank) + sees +
                ". Start fewer ranks on a host, or let CUDA_VISIBLE_DEVICES name more GPUs");
}

/// How long rank 0 waits for the others to see that it has ended.
inline coordination::Duration parting_time(const LaunchedOptions& o) {
    return std::min<coordination::Duration>(o.deadline, std::chrono::seconds(5));
}

inline std::string address_of(int gpu) {
    char text[32] = {};
    cuda::expect(cudaDeviceGetPCIBusId(text, sizeof(text), gpu), "cudaDeviceGetPCIBusId", gpu);
    return text;
}

inline std::string nccl_version() {
    int version = 0;
    expect(ncclGetVersion(&version), "ncclGetVersion");
    return std::to_string(version);
}

/// What the ranks have said, "GPU NCCL" or a sentence behind '!', is fit for a run.
inline void expect_fit(const std::vector<std::string>& said, const coordination::Roster& roster) {
    std::map<std::pair<int, std::string>, int> ranks;  // by node and GPU
    const std::string version = said[0].substr(said[0].find(' ') + 1);
    for (int r = 0; r < roster.ranks(); ++r) {
        const std::string& one = said[static_cast<std::size_t>(r)];
        const std::string rank = "rank " + std::to_string(r) + " on host " + roster.at(r).host;
        if (one.starts_with('!')) throw Error(rank + ": " + one.substr(1));
        const std::size_t space = one.find(' ');
        const std::string gpu = one.substr(0, space);
        const auto [other, is_new] = ranks.emplace(std::pair(roster.node_of(r), gpu), r);
        if (!is_new)
            throw Error(rank + " has the GPU " + gpu + ", as rank " +
                        std::to_string(other->second) +
                        " has. NCCL takes one rank on a GPU: start as many ranks as there are "
                        "GPUs, and let CUDA_VISIBLE_DEVICES give each of them its own");
        if (one.substr(space + 1) != version)
            throw Error(rank + " has NCCL " + one.substr(space + 1) + ", and rank 0 has NCCL " +
                        version + ". Start all ranks with one NCCL");
    }
}

}  // namespace detail::launched

GX_DECL Meeting::Meeting(const LaunchedOptions& options, int run) : options_(options) {
    gx::detail::threads::expect_deadline(options.deadline);
    gx::detail::threads::expect_deadline(options.join_deadline);
    session_ = detail::launched::session_of(options, run);
    try {
        roster_ = detail::launched::join(*session_, options.launch);
        connect();
        take_gpu();
    } catch (...) {
        session_->fail(coordination::sentence_of(std::current_exception()));
        leave();
        throw;
    }
}

// The others may wait in run() for what this rank would have sent.
GX_DECL Meeting::~Meeting() {
    if (session_->is_forked()) return;
    if (!left_)
        session_->fail("rank " + std::to_string(session_->rank()) + " on host " +
                       roster_.at(session_->rank()).host +
                       " left before run(): look at its own error. Every rank calls run()");
    leave();
    session_->part(detail::launched::parting_time(options_));
}

/// Connects the hosts.
GX_DECL void Meeting::connect() {
    const LaunchedOptions& o = options_;
    std::string host = session_->host();
    if (host.empty() || coordination::listening_host(host) == host) host = o.launch.host;
    mesh_.emplace(roster_.placement(), coordination::connect_all(*session_, host, o.join_deadline),
                  o.deadline, *session_);
}

GX_DECL void Meeting::take_gpu() {
    std::string own;
    try {
        gpu_ = detail::launched::gpu_of(options_, roster_.local_rank(session_->rank()));
        options_.gpu = gpu_;  // also among fewer ranks
        own = detail::launched::address_of(gpu_) + " " + detail::launched::nccl_version();
    } catch (const Error& e) {
        own = std::string("!") + e.what();
    }
    detail::launched::expect_fit(session_->gather(own), roster_);
}

/// NCCL's id of this run.
GX_DECL ncclUniqueId Meeting::shared_id() {
    ncclUniqueId id{};
    std::string bytes;
    if (session_->rank() == 0) {
        id = unique_id();
        bytes.assign(id.internal, sizeof(id.internal));
    }
    session_->working_on({"waiting for each rank's run()"});
    const std::string shared = session_->gather(bytes, options_.join_deadline)[0];
    if (shared.size() != sizeof(id.internal))
        throw Error("rank 0 gave an NCCL id of " + std::to_string(shared.size()) + " bytes");
    std::memcpy(id.internal, shared.data(), shared.size());
    return id;
}

GX_DECL void Meeting::run(FunctionRef<void(RankBoard&, const ncclUniqueId&)> rank) {
    detail::launched::SessionLink link(*session_);
    RankBoard board(session_->ranks(), session_->rank(), link);
    coordination::ProcessRun own{*session_};
    bool begun = false;
    try {
        if (!mesh_) {  // they have regrouped
            roster_ = session_->join();
            connect();
            take_gpu();
        }
        const ncclUniqueId id = shared_id();
        session_->on_note([&](int from, std::span<const std::byte> bytes) {
            board.heard(from, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        });
        begun = true;
        rank(board, id);
    } catch (...) {
        own.fail();
    }
    board.leave(session_->rank());
    leave();
    try {
        coordination::throw_loss(*session_, own.first_error, begun);
    } catch (...) {
        loss_ = coordination::sentence_of(std::current_exception());
        gpu_lost_ = coordination::is_device_lost(own.first_error);
        throw;
    }
    coordination::throw_first(*session_, own.first_error);
}

/// Waits for the other ranks; behind a cause at most two deadlines.
GX_DECL void Meeting::leave() {
    if (std::exchange(left_, true)) return;
    if (mesh_) mesh_->leave();
    session_->leave();
    // A rank may hang, the root too, which then ends no process.
    const bool all = session_->await_end(options_.deadline), is_root = session_->rank() == 0;
    if (!all && is_root && session_->cause().is_loss()) session_->end_now();
    session_->on_note({});
    mesh_.reset();
}

GX_DECL coordination::Regrouped Meeting::regroup(std::int64_t number) {
    const coordination::Duration deadline = options_.deadline;
    const std::string loss = std::exchange(loss_, {});
    if (gpu_lost_) return {};
    const bool is_root = session_->rank() == 0;
    // That of the end of the root's run, of its wait for the others, and one more.
    const coordination::Duration behind_root =
        coordination::saturating_sum(deadline, coordination::saturating_sum(deadline, deadline));
    coordination::Regrouped left = session_->regroup(number, is_root ? deadline : behind_root);
    if (!left.members.empty()) {
        left_ = false;
        roster_ = roster_.of(left.members);
        return left;
    }
    const coordination::Cause cause = session_->cause();
    if (cause.rank == session_->rank()) return left;  // the others have waited for this one
    const std::string what =
        cause.rank == 0 ? "rank 0 is lost" : "rank 0 has ended or does not answer";
    throw Error(loss + " The run can't go on without a rank: " + what +
                ", and the others meet at its address. Start all ranks again, and resume from a "
                "checkpoint.");
}

}  // namespace gx::nccl

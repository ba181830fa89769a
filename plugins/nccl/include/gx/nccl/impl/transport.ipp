// Transport: groups, and what goes wrong with them.
#pragma once

#include <thread>   // yield
#include <utility>  // move

#include <gx/core/error.hpp>      // DeviceLost, LostRank
#include <gx/cuda/error.hpp>      // expect_usable
#include <gx/nccl/error.hpp>      // expect
#include <gx/nccl/transport.hpp>  // the declarations

namespace gx::nccl {

// ---- Beginning and end -----------------------------------------------------------------------

GX_DECL Transport::Transport(cuda::Queue& queue, RankBoard& board, const ncclUniqueId& id, int rank,
                             const Options& options)
    : queue_(&queue), board_(&board), options_(options), rank_(rank), world_rank_(rank) {
    marks_.emplace(queue, options.now);
    ledger_ = 0;
    board.joins(ledger_, rank);
    comm_ = Communicator(id, rank, ranks());
    if (!settle(ncclInProgress)) throw_lost("joining the other ranks", lost_);
    queue.context().watch([this] { return watch_all(); });
}

GX_DECL Transport::Transport(Transport& parent, int color, int key)
    : queue_(parent.queue_),
      board_(parent.board_),
      options_(parent.options_),
      parent_(&parent),
      world_rank_(parent.world_rank_) {
    board_->divides(parent.ledger_, parent.splits_, parent.rank_, color, key);
    parent.comm_.split(color, key, comm_);
    if (!parent.settle(ncclInProgress)) {
        parent.abort();  // before comm_ ends, which NCCL fills
        throw_lost("splitting a communicator", parent.lost_);
    }
    if (!settle(ncclInProgress) || !parent.await_division(parent.splits_))
        throw_lost("splitting a communicator", root().lost_);
    int ranks = 0;
    check(ncclCommCount(comm_.get(), &ranks), "ncclCommCount");
    check(ncclCommUserRank(comm_.get(), &rank_), "ncclCommUserRank");
    options_.placement = {1, ranks};
    ledger_ = board_->part(parent.ledger_, parent.splits_, color);
    board_->joins(ledger_, rank_);
}

GX_DECL Transport::~Transport() {
    abort();
    if (parent_ == nullptr) queue_->context().watch({});
}

GX_DECL Transport& Transport::split(int color, int key) {
    finish("splitting a communicator");
    ++splits_;
    board_->takes_part(ledger_, rank_);
    parts_.push_back(std::unique_ptr<Transport>(new Transport(*this, color, key)));
    return *parts_.back();
}

/// Waits for all that was queued.
GX_DECL void Transport::finish(const char* operation) {
    const Delivery done = queue_->wait(queue_->record());
    if (!lost_.complete()) throw_lost(operation, lost_);
    if (!done.complete()) throw_lost(operation, done);
}

GX_DECL void Transport::close() {
    finish("waiting for the last messages");
    graphs_.clear();
    while (!parts_.empty()) {
        parts_.back()->close();
        parts_.pop_back();
    }
    comm_.finalize();
    if (!settle(ncclInProgress)) throw_lost("ending a communicator", lost_);
    comm_.destroy();
}

GX_DECL void Transport::abort() noexcept {
    if (cuda::current_graph != nullptr) return;  // NCCL would wait for its end; repeat() aborts
    graphs_.clear();
    for (const auto& part : parts_) part->abort();
    comm_.abort();
}

GX_DECL void Transport::repeat(cuda::Queue& queue, std::uint64_t key, FunctionRef<void()> f) {
    if (!lost_.complete()) return f();
    const std::uint64_t marked = marks_->recorded();
    try {
        graphs_.run(key, queue, *queue_, [&] {
            f();
            return lost_.complete();
        });
    } catch (...) {
        marks_->forget(marked);
        if (!lost_.complete()) abort();
        throw;
    }
    if (lost_.complete()) return;
    marks_->forget(marked);
    abort();
}

// ---- Groups ----------------------------------------------------------------------------------

GX_DECL void Transport::exchange(std::span<const QueuedMessage<Memory>> group) {
    if (group.empty()) return;
    if (!lost_.complete()) return queued();
    cuda::CallHash hash;
    for (const auto& m : group) {
        hash.add(m.peer);
        hash.add(Memory::open(m.out));
        hash.add(Memory::open(m.in));
        if (m.peer < 0 || m.peer >= ranks()) continue;  // NCCL refuses it
        if (!m.out.empty()) board_->sends(ledger_, rank_, m.peer);
        else if (!m.in.empty()) board_->receives(ledger_, rank_, m.peer);
    }
    constexpr const char* call = "a group of ncclSend and ncclRecv";
    check(cuda::queued_call(call, [&] { return call_group(group); }, ledger_, hash.value()), call);
    queued();
}

GX_DECL ncclResult_t Transport::call_group(std::span<const QueuedMessage<Memory>> group) {
    CallGroup calls;
    for (const auto& m : group) {
        if (calls.failed()) break;
        const bool sends = !m.out.empty();
        if (!sends && m.in.empty()) continue;
        calls.add(sends ? ncclSend(Memory::open(m.out).data, m.out.size(), ncclUint8, m.peer,
                                   comm_.get(), queue_->stream())
                        : ncclRecv(Memory::open(m.in).data, m.in.size(), ncclUint8, m.peer,
                                   comm_.get(), queue_->stream()));
    }
    return calls.end();
}

GX_DECL void Transport::sum(void* values, std::size_t count, ncclDataType_t type) {
    if (count == 0) return;
    if (!lost_.complete()) return queued();
    board_->takes_part(ledger_, rank_);
    const auto call = [&] {
        return ncclAllReduce(values, values, count, type, ncclSum, comm_.get(), queue_->stream());
    };
    check(cuda::queued_call("ncclAllReduce", call, ledger_, values, count, type), "ncclAllReduce");
    queued();
}

GX_DECL void Transport::queued() {
    Transport& all = root();
    if (lost_.complete()) all.marks_->queued();
    else if (!all.unfinished_) all.unfinished_ = all.marks_->current();
}

GX_DECL void Transport::check(ncclResult_t result, const char* call) {
    if (result == ncclInProgress || is_failure(result)) (void)settle(result);
    else expect(result, std::string(call) + " by rank " + std::to_string(rank_), comm_.get());
}

GX_DECL bool Transport::settle(ncclResult_t state) {
    const auto begin = options_.now();
    while (lost_.complete()) {
        if (state == ncclSuccess) return true;
        if (!goes_on(state) && !is_failure(state))
            expect(state, "NCCL on rank " + std::to_string(world_rank_), comm_.get());
        if (!examine(state).complete()) break;
        if (options_.now() - begin > options_.deadline) (void)lose(suspect());
        std::this_thread::yield();
        if (comm_.get() != nullptr) state = comm_.state();
    }
    return false;
}

GX_DECL bool Transport::await_division(int split) {
    const auto begin = options_.now();
    while (!board_->divided(ledger_, split)) {
        if (!watch().complete()) return false;
        if (options_.now() - begin > options_.deadline) (void)lose(suspect());
        std::this_thread::yield();
    }
    return true;
}

// ---- Waits of the host -----------------------------------------------------------------------

GX_DECL Delivery Transport::watch_all() {
    marks_->poll();
    board_->computes(world_rank_, marks_->works_before_messages());
    Delivery d = watch();
    if (d.complete() && marks_->stuck() > options_.deadline) d = lose(suspect());
    if (d.complete()) return d;
    abort();
    // Where all messages were done the queue gets to its end; what is dropped later shows then.
    return unfinished_ ? d : Delivery{};
}

/// Of this communicator, and of all that were split from it.
GX_DECL Delivery Transport::watch() {
    if (!lost_.complete()) return lost_;
    Delivery d = comm_.get() == nullptr ? Delivery{} : examine(comm_.state());
    for (std::size_t i = 0; d.complete() && i < parts_.size(); ++i) d = parts_[i]->watch();
    return d;
}

/// Incomplete where a rank has left with a debt, or does not answer behind an error of its peers.
/// Errors: DeviceLost where this rank alone can't go on: with CUDA's error of its GPU, or NCCL's.
GX_DECL Delivery Transport::examine(ncclResult_t state) {
    if (const int lost = gone(); lost >= 0) return lose(lost);
    if (goes_on(state)) {
        board_->answer(world_rank_);
        return {};
    }
    const std::string call = "NCCL on rank " + std::to_string(world_rank_);
    cuda::expect_usable(call + ": " + ncclGetErrorString(state));
    if (state == ncclRemoteError) {
        if (!failed_since_) failed_since_ = options_.now();
        board_->ask();
        if (const int silent = board_->silent(world_rank_); silent >= 0)
            return options_.now() - *failed_since_ <= options_.deadline ? Delivery{} : lose(silent);
    }
    try {
        expect(state, call, comm_.get());
    } catch (const Error& e) {
        throw DeviceLost(e.what());
    }
    return {};
}

/// The rank that is known to be lost, or has left without what it owes; -1: none.
GX_DECL int Transport::gone() {
    if (const int lost = board_->lost(); lost >= 0) return lost;
    return ledger_ < 0 ? board_->missing(parent_->ledger_, parent_->rank_)
                       : board_->missing(ledger_, rank_);
}

/// The rank that this one waits for, also on its parts; -1: none.
GX_DECL int Transport::owing() {
    int found = ledger_ < 0 ? board_->suspect(parent_->ledger_, parent_->rank_)
                            : board_->suspect(ledger_, rank_);
    for (std::size_t i = 0; found < 0 && i < parts_.size(); ++i) found = parts_[i]->owing();
    return found;
}

/// The rank that is most likely lost where NCCL fails or waits.
GX_DECL int Transport::suspect() {
    const int found = owing();
    return found < 0 ? world_rank_ : found;
}

GX_DECL Delivery Transport::lose(int lost) {
    if (!lost_.complete()) return lost_;
    if (parent_ != nullptr) {
        lost_ = parent_->lose(lost);
        return lost_;
    }
    marks_->poll();
    if (!unfinished_) unfinished_ = marks_->oldest();
    const bool first = board_->report(lost);
    lost_ = {first ? Delivery::Outcome::timed_out : Delivery::Outcome::cancelled, board_->lost()};
    tell_parts();
    abort();
    return lost_;
}

/// Their communicators end with this one: what they are given from here on is dropped.
GX_DECL void Transport::tell_parts() {
    for (const auto& part : parts_) {
        part->lost_ = lost_;
        part->tell_parts();
    }
}

GX_DECL void Transport::give_up(int lost) noexcept {
    if (comm_.get() != nullptr) (void)lose(lost < 0 ? world_rank_ : lost);
    (void)cudaStreamSynchronize(queue_->stream());
}

GX_DECL void Transport::throw_lost(const char* operation, Delivery d) const {
    throw LostRank({.rank = world_rank_, .operation = operation}, d);
}

}  // namespace gx::nccl

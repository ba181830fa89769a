// Transport: groups, and what goes wrong with them.
#pragma once

#include <thread>   // yield
#include <utility>  // move

#include <gx/core/error.hpp>      // LostRank
#include <gx/cuda/error.hpp>      // cuda::expect
#include <gx/nccl/error.hpp>      // expect
#include <gx/nccl/transport.hpp>  // the declarations

namespace gx::nccl {

// ---- Beginning and end -----------------------------------------------------------------------

GX_DECL Transport::Transport(cuda::Queue& queue, RankBoard& board, const ncclUniqueId& id, int rank,
                             const Options& options)
    : queue_(&queue), board_(&board), options_(options), rank_(rank), world_rank_(rank) {
    mark_ = cuda::make_event();
    comm_ = Communicator(id, rank, ranks());
    ledger_ = board.join({-1, 0, 0}, ranks(), rank, rank);
    if (!settle()) throw_lost("joining the other ranks", lost_);
    queue.context().watch([this] { return watch_all(); });
}

GX_DECL Transport::Transport(Transport& parent, int color, int key)
    : queue_(parent.queue_),
      board_(parent.board_),
      options_(parent.options_),
      parent_(&parent),
      world_rank_(parent.world_rank_) {
    mark_ = cuda::make_event();
    parent.comm_.split(color, key, comm_);
    if (!parent.settle()) {
        parent.abort();  // before comm_ ends, which NCCL fills
        throw_lost("splitting a communicator", parent.lost_);
    }
    if (!settle()) throw_lost("splitting a communicator", lost_);
    int ranks = 0;
    check(ncclCommCount(comm_.get(), &ranks), "ncclCommCount");
    check(ncclCommUserRank(comm_.get(), &rank_), "ncclCommUserRank");
    options_.placement = {1, ranks};
    ledger_ = board_->join({parent.ledger_, parent.splits_, color}, ranks, rank_, world_rank_);
}

GX_DECL Transport::~Transport() {
    abort();
    if (parent_ == nullptr) queue_->context().watch({});
}

GX_DECL Transport& Transport::split(int color, int key) {
    if (!lost_.complete()) throw_lost("splitting a communicator", lost_);
    const Delivery done = queue_->wait(queue_->record());
    if (!done.complete()) throw_lost("splitting a communicator", done);
    ++splits_;
    board_->takes_part(ledger_, rank_);
    parts_.push_back(std::unique_ptr<Transport>(new Transport(*this, color, key)));
    return *parts_.back();
}

GX_DECL void Transport::close() {
    const Delivery done = queue_->wait(queue_->record());
    if (!done.complete()) throw_lost("waiting for the last messages", done);
    while (!parts_.empty()) {
        parts_.back()->close();
        parts_.pop_back();
    }
    comm_.finalize();
    if (!settle()) throw_lost("ending a communicator", lost_);
    comm_.destroy();
}

GX_DECL void Transport::abort() noexcept {
    for (const auto& part : parts_) part->abort();
    comm_.abort();
}

// ---- Groups ----------------------------------------------------------------------------------

GX_DECL void Transport::exchange(std::span<const QueuedMessage<Memory>> group) {
    if (!lost_.complete() || group.empty()) return;
    CallGroup calls;
    for (const auto& m : group) {
        if (calls.failed()) break;
        const bool sends = !m.out.empty();
        if (!sends && m.in.empty()) continue;
        calls.add(sends ? ncclSend(Memory::open(m.out).data, m.out.size(), ncclUint8, m.peer,
                                   comm_.get(), queue_->stream())
                        : ncclRecv(Memory::open(m.in).data, m.in.size(), ncclUint8, m.peer,
                                   comm_.get(), queue_->stream()));
        if (calls.failed()) break;
        sends ? board_->sends(ledger_, rank_, m.peer) : board_->receives(ledger_, rank_, m.peer);
    }
    check(calls.end(), "a group of ncclSend and ncclRecv");
}

GX_DECL void Transport::sum(void* values, std::size_t count, ncclDataType_t type) {
    if (!lost_.complete() || count == 0) return;
    board_->takes_part(ledger_, rank_);
    check(ncclAllReduce(values, values, count, type, ncclSum, comm_.get(), queue_->stream()),
          "ncclAllReduce");
}

GX_DECL void Transport::check(ncclResult_t result, const char* call) {
    if (result == ncclInProgress) (void)settle();
    else if (is_failure(result)) (void)lose(suspect());
    else expect(result, std::string(call) + " by rank " + std::to_string(rank_), comm_.get());
}

GX_DECL bool Transport::settle() {
    const auto begin = Clock::now();
    while (lost_.complete()) {
        const ncclResult_t state = comm_.state();
        if (state == ncclSuccess) return true;
        const bool late = Clock::now() - begin > options_.deadline;
        if (const int lost = gone(); lost >= 0) (void)lose(lost);
        else if (state != ncclInProgress && !is_failure(state))
            expect(state, "NCCL on rank " + std::to_string(world_rank_), comm_.get());
        else if (state != ncclInProgress || late) (void)lose(suspect());
        else std::this_thread::yield();
    }
    return false;
}

// ---- Waits of the host -----------------------------------------------------------------------

GX_DECL Delivery Transport::watch_all() {
    Delivery d = watch();
    for (std::size_t i = 0; d.complete() && i < parts_.size(); ++i) d = parts_[i]->watch();
    if (d.complete()) d = watch_deadline();
    if (!d.complete()) abort();
    return d;
}

GX_DECL Delivery Transport::watch() {
    if (!lost_.complete()) return lost_;
    if (comm_.get() == nullptr) return {};
    if (const int lost = gone(); lost >= 0) return lose(lost);
    return goes_on(comm_.state()) ? Delivery{} : lose(suspect());
}

/// The queue gets on: a mark at its end is reached within the deadline.
GX_DECL Delivery Transport::watch_deadline() {
    if (!marked_) {
        cuda::expect(cudaEventRecord(mark_.get(), queue_->stream()), "cudaEventRecord",
                     queue_->context().device());
        marked_ = true;
        marked_at_ = Clock::now();
        return {};
    }
    if (const cudaError_t reached = cudaEventQuery(mark_.get()); reached == cudaSuccess)
        marked_ = false;
    else if (reached != cudaErrorNotReady)
        cuda::expect(reached, "cudaEventQuery", queue_->context().device());
    else if (Clock::now() - marked_at_ > options_.deadline) return lose(suspect());
    return {};
}

/// The rank that is known to be lost, or has left without what it owes; -1: none.
GX_DECL int Transport::gone() {
    if (const int lost = board_->lost(); lost >= 0) return lost;
    return ledger_ < 0 ? board_->missing(parent_->ledger_, parent_->rank_)
                       : board_->missing(ledger_, rank_);
}

/// The rank that is most likely lost where NCCL fails or waits.
GX_DECL int Transport::suspect() {
    const int found = ledger_ < 0 ? board_->suspect(parent_->ledger_, parent_->rank_)
                                  : board_->suspect(ledger_, rank_);
    return found < 0 ? world_rank_ : found;
}

GX_DECL Delivery Transport::lose(int lost) {
    if (!lost_.complete()) return lost_;
    if (parent_ != nullptr) {
        lost_ = parent_->lose(lost);
        return lost_;
    }
    const bool first = board_->report(lost);
    lost_ = {first ? Delivery::Outcome::timed_out : Delivery::Outcome::cancelled,
             first ? lost : board_->lost()};
    abort();
    return lost_;
}

GX_DECL void Transport::abandon() noexcept {
    if (comm_.get() != nullptr) (void)lose(world_rank_);
    (void)cudaStreamSynchronize(queue_->stream());
}

GX_DECL void Transport::throw_lost(const char* operation, Delivery d) const {
    throw LostRank({.rank = world_rank_, .operation = operation}, d);
}

}  // namespace gx::nccl

// PeerTransport: messages between the GPUs of one process, by copies that events order.
#pragma once

#include <algorithm>           // find
#include <condition_variable>  // offers
#include <deque>               // messages in order
#include <exception>           // exception_ptr
#include <map>                 // pairs of ranks
#include <mutex>               // one at a time
#include <span>                // groups
#include <string>              // sentences
#include <utility>             // pair
#include <vector>              // events

#include <cuda_runtime_api.h>  // cudaMemcpyPeerAsync

#include <gx/core/error.hpp>      // Delivery
#include <gx/core/transport.hpp>  // Placement
#include <gx/cuda/error.hpp>      // expect
#include <gx/cuda/handles.hpp>    // EventHandle
#include <gx/cuda/queue.hpp>      // Queue
#include <gx/memory/queue.hpp>    // StreamOrdered, QueuedMessage

namespace gx::cuda_testing {

/// What ranks, as threads of one process, offer each other. Events live as long as it does.
class PeerBoard {
public:
    struct Offer {
        const std::byte* data = nullptr;
        std::size_t bytes = 0;
        int device = 0;
        cudaEvent_t written = nullptr;
    };
    explicit PeerBoard(Placement placement) : placement_(placement) {}
    [[nodiscard]] Placement placement() const { return placement_; }

    /// Of the calling thread's current device.
    [[nodiscard]] std::vector<cudaEvent_t> make_events(std::size_t count) {
        const std::lock_guard lock(mutex_);
        std::vector<cudaEvent_t> events(count);
        for (cudaEvent_t& e : events) e = events_.emplace_back(cuda::make_event()).get();
        return events;
    }

    void offer(int from, int to, const Offer& offer) {
        const std::lock_guard lock(mutex_);
        offers_[{from, to}].push_back(offer);
        changed_.notify_all();
    }
    /// Waits for an offer; `copy(offer)` queues the copy and returns the event behind it.
    template <class F>
    [[nodiscard]] Delivery take(int from, int to, F copy) {
        std::unique_lock lock(mutex_);
        return with_next(lock, offers_[{from, to}], from, [&](const Offer& o) {
            taken_[{from, to}].push_back(copy(o));
            changed_.notify_all();
        });
    }
    /// Waits until an offer was taken; `use(event)`.
    template <class F>
    [[nodiscard]] Delivery taken(int from, int to, F use) {
        std::unique_lock lock(mutex_);
        return with_next(lock, taken_[{from, to}], to, use);
    }
    /// A rank can't go on: takes back its offers, and calls use(event) for those that were taken.
    template <class F>
    void withdraw(int rank, F use) {
        const std::lock_guard lock(mutex_);
        for (auto& [pair, offers] : offers_)
            if (pair.first == rank) offers.clear();
        for (auto& [pair, events] : taken_)
            if (pair.first == rank)
                for (; !events.empty(); events.pop_front()) use(events.front());
    }
    /// A rank ends; with an error: the others can't go on.
    void leave(int rank, std::exception_ptr error = {}) {
        const std::lock_guard lock(mutex_);
        if (error && !error_) failed_ = rank, error_ = std::move(error);
        left_.push_back(rank);
        changed_.notify_all();
    }
    /// Of the rank that failed first.
    [[nodiscard]] std::exception_ptr error() const { return error_; }

private:
    template <class T>
    using Boxes = std::map<std::pair<int, int>, std::deque<T>>;

    template <class T, class F>
    Delivery with_next(std::unique_lock<std::mutex>& lock, std::deque<T>& box, int peer, F use) {
        const auto has_left = [&] { return std::ranges::find(left_, peer) != left_.end(); };
        changed_.wait(lock, [&] { return !box.empty() || failed_ >= 0 || has_left(); });
        if (box.empty() && failed_ >= 0) return {Delivery::Outcome::cancelled, failed_};
        if (box.empty()) return {Delivery::Outcome::timed_out, peer};
        use(box.front());
        box.pop_front();
        return {};
    }

    Placement placement_;
    std::mutex mutex_{};
    std::condition_variable changed_{};
    std::deque<cuda::EventHandle> events_{};
    Boxes<Offer> offers_{};
    Boxes<cudaEvent_t> taken_{};
    std::vector<int> left_{};
    int failed_ = -1;
    std::exception_ptr error_{};
};

/// A receiver copies from the sender's memory, behind an event of the sender's stream; the sender's
/// stream goes on behind an event of the copy. Models StreamOrdered; the hosts meet in exchange(),
/// where the streams need not have come so far. Once a rank is missing it sends nothing more, and
/// the host's waits are incomplete.
class PeerTransport {
public:
    using Memory = cuda::GpuMemory;

    PeerTransport(PeerBoard& board, cuda::DeviceContext& gpu, int rank)
        : board_(&board),
          rank_(rank),
          queue_(gpu, "communication"),
          events_(board.make_events(64)) {}

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return placement().ranks(); }
    [[nodiscard]] Placement placement() const { return board_->placement(); }
    [[nodiscard]] cuda::Queue& queue() { return queue_; }

    void exchange(std::span<const QueuedMessage<Memory>> group) {
        if (!missing_.complete()) return;
        try {
            missing_ = meet(group);
        } catch (...) {
            withdraw();
            throw;
        }
        if (missing_.complete()) return;
        withdraw();
        queue_.context().watch([d = missing_] { return d; });
    }

private:
    Delivery meet(std::span<const QueuedMessage<Memory>> group) {
        const cudaEvent_t written = record();
        for (const auto& m : group)
            if (!m.out.empty())
                board_->offer(rank_, m.peer,
                              {Memory::open(m.out).data, m.out.size(), device(), written});
        Delivery d;
        for (const auto& m : group)
            if (!m.in.empty() && d.complete())
                d = board_->take(m.peer, rank_, [&](const auto& o) { return copy(m, o); });
        for (const auto& m : group)
            if (!m.out.empty() && d.complete())
                d = board_->taken(rank_, m.peer, [&](cudaEvent_t copied) { wait_for(copied); });
        return d;
    }
    /// What was offered may end: waits for copies of it.
    void withdraw() {
        board_->withdraw(rank_, [](cudaEvent_t copied) { (void)cudaEventSynchronize(copied); });
    }
    cudaEvent_t copy(const QueuedMessage<Memory>& m, const PeerBoard::Offer& offer) {
        if (offer.bytes != m.in.size())
            throw Error("rank " + std::to_string(m.peer) + " sends " + std::to_string(offer.bytes) +
                        " bytes where rank " + std::to_string(rank_) + " receives " +
                        std::to_string(m.in.size()) +
                        ". Reduce the same buckets in the same order on every rank.");
        wait_for(offer.written);
        cuda::expect(cudaMemcpyPeerAsync(Memory::open(m.in).data, device(), offer.data,
                                         offer.device, offer.bytes, queue_.stream()),
                     "cudaMemcpyPeerAsync", device());
        return record();
    }
    void wait_for(cudaEvent_t event) {
        cuda::expect(cudaStreamWaitEvent(queue_.stream(), event, 0), "cudaStreamWaitEvent",
                     device());
    }
    /// One that is recorded again means a later point, which is reached too.
    cudaEvent_t record() {
        const cudaEvent_t event = events_[recorded_++ % events_.size()];
        cuda::expect(cudaEventRecord(event, queue_.stream()), "cudaEventRecord", device());
        return event;
    }
    [[nodiscard]] int device() const { return queue_.context().device(); }

    PeerBoard* board_;
    int rank_;
    cuda::Queue queue_;
    std::vector<cudaEvent_t> events_;
    std::size_t recorded_ = 0;
    Delivery missing_{};
};
static_assert(StreamOrdered<PeerTransport>);

}  // namespace gx::cuda_testing

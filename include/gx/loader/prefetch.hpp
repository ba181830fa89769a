// Prefetched<Loader>: prefetches batches on a thread of its own.
#pragma once

#include <array>               // batches that are ready
#include <concepts>            // constructible_from
#include <condition_variable>  // waits
#include <cstdint>             // int64_t
#include <exception>           // exception_ptr
#include <mutex>               // guards what both threads see
#include <stop_token>          // an end to waiting
#include <thread>              // jthread
#include <utility>             // forward

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/loader/concept.hpp>  // explain_loader

namespace gx {

/// Loader that reads `L` ahead by up to `Depth` batches on a thread of its own.
///
///     Prefetched<InMemory<PadCrop<4>, Flip>> train(data.train, {.batch = 128});
///
/// Errors: what L throws on its thread is thrown again by the next call of next(), in its place
///         in the order of batches; begin_epoch() starts afresh. An epoch that is begun twice
///         before its first batch is taken goes on reading.
/// Order:  the same batches with the same bits as L on its own.
/// Cost:   Depth more batches of memory; next() waits only when the thread has fallen behind.
template <class L, int Depth>
class Prefetched {
    static_assert(explain_loader<L>());
    static_assert(Depth >= 1,
                  "gx: Prefetched needs to read ahead by at least one batch. "
                  "Fix: write Prefetched<L>, or L on its own.");

public:
    template <class... A>
        requires std::constructible_from<L, A&&...>
    explicit Prefetched(A&&... a) : loader_(std::forward<A>(a)...) {
        start();
    }
    template <class Data>  // lets a braced LoaderOptions be written
        requires std::constructible_from<L, const Data&, const LoaderOptions&>
    Prefetched(const Data& data, const LoaderOptions& o) : loader_(data, o) {
        start();
    }
    Prefetched(const Prefetched&) = delete;
    Prefetched& operator=(const Prefetched&) = delete;

    [[nodiscard]] ImageShape shape() const { return shape_; }
    [[nodiscard]] int classes() const { return classes_; }
    [[nodiscard]] std::int64_t images_per_epoch() const { return images_; }
    [[nodiscard]] std::int64_t steps_per_epoch() const { return steps_; }

    [[nodiscard]] std::int64_t steps_after(std::int64_t done) const
        requires BeginsWithin<L>
    {
        return loader_.steps_after(done);
    }

    void keep(int batches) {
        const std::scoped_lock lock(mutex_);
        GX_EXPECT(epoch_ < 0, "keep() comes before the first epoch");
        loader_.keep(batches + Depth);
    }

    /// `done` above 0 needs a loader that BeginsWithin an epoch.
    void begin_epoch(int epoch, std::int64_t done = 0) {
        GX_EXPECT(epoch >= 0, "epochs count from 0");
        GX_EXPECT(done == 0 || BeginsWithin<L>, "this loader begins at an epoch's first image");
        const std::scoped_lock lock(mutex_);
        if (epoch == epoch_ && done == done_ && taken_ == 0 && !trouble_) return;  // as it reads
        steps_asked_ = steps_;
        if constexpr (BeginsWithin<L>) steps_asked_ = loader_.steps_after(done);
        epoch_ = epoch;
        done_ = done;
        ++request_;
        ready_count_ = 0;
        trouble_ = nullptr;
        taken_ = 0;
        changed_.notify_all();
    }

    [[nodiscard]] RankBatch next() {
        std::unique_lock lock(mutex_);
        GX_EXPECT(epoch_ >= 0, "begin_epoch() comes before next()");
        GX_EXPECT(taken_ < steps_asked_,
                  "an epoch has steps_per_epoch() steps: begin the next one");
        changed_.wait(lock, [&] { return ready_count_ > 0 || trouble_; });
        if (ready_count_ == 0) std::rethrow_exception(trouble_);
        const RankBatch batch = ready_[static_cast<std::size_t>(taken_++ % Depth)];
        --ready_count_;
        changed_.notify_all();
        return batch;
    }

private:
    void start() {
        shape_ = loader_.shape();
        classes_ = loader_.classes();
        images_ = loader_.images_per_epoch();
        steps_ = loader_.steps_per_epoch();
        loader_.keep(2 + Depth);
        thread_ = std::jthread([this](std::stop_token stop) { produce(stop); });
    }

    /// The thread: one epoch after the other, each until it is whole or another is asked for.
    void produce(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        for (std::int64_t served = 0;;) {
            if (!changed_.wait(lock, stop, [&] { return request_ != served; })) return;
            served = request_;
            try {
                produce_epoch(lock, stop, served);
            } catch (...) {
                if (!lock.owns_lock()) lock.lock();
                if (request_ == served) trouble_ = std::current_exception();
                changed_.notify_all();
            }
        }
    }

    void produce_epoch(std::unique_lock<std::mutex>& lock, const std::stop_token& stop,
                       std::int64_t served) {
        const int epoch = epoch_;
        const std::int64_t done = done_, steps = steps_asked_;
        lock.unlock();
        if constexpr (BeginsWithin<L>) loader_.begin_epoch(epoch, done);
        else loader_.begin_epoch(epoch);
        lock.lock();
        for (std::int64_t made = 0; made < steps; ++made) {
            // A batch that is being made counts as ready, so no more than Depth are ahead.
            changed_.wait(lock, stop, [&] { return request_ != served || ready_count_ < Depth; });
            if (request_ != served || stop.stop_requested()) return;
            lock.unlock();
            const RankBatch batch = loader_.next();
            lock.lock();
            if (request_ != served) return;
            ready_[static_cast<std::size_t>(made % Depth)] = batch;
            ++ready_count_;
            changed_.notify_all();
        }
    }

    L loader_;  // after construction and keep(), the thread's alone but for steps_after()
    ImageShape shape_{};
    int classes_ = 0;
    std::int64_t images_ = 0, steps_ = 0;

    std::mutex mutex_;
    std::condition_variable_any changed_;
    int epoch_ = -1;                // the epoch asked for
    std::int64_t done_ = 0;         // its images that are left out
    std::int64_t steps_asked_ = 0;  // its steps behind them
    std::int64_t request_ = 0;      // counts begin_epoch()
    std::int64_t taken_ = 0;
    int ready_count_ = 0;
    std::array<RankBatch, Depth> ready_;  // batch k of the epoch at k % Depth
    std::exception_ptr trouble_;
    std::jthread thread_;  // last: joined before anything it uses goes away
};

}  // namespace gx

// training: a graph trained by one process alone, or by two ranks that average gradients.
#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <thread>
#include <vector>

#include <gx/core/element.hpp>             // fp32
#include <gx/core/error.hpp>               // Error
#include <gx/core/rng.hpp>                 // images
#include <gx/threads/threads.hpp>          // Threads
#include <gx/memory/aligned_buffer.hpp>    // AlignedBuffer
#include <gx/model/cifar_resnet.hpp>       // ResNet20
#include <gx/model/init.hpp>               // initial_parameters
#include <gx/onednn/device.hpp>            // Device
#include <gx/optimizer/sgd.hpp>            // Sgd
#include <gx/optimizer/shared_update.hpp>  // update_in_shares
#include <gx/reducer/pipeline.hpp>         // Pipeline
#include <gx/reducer/ring.hpp>             // Ring

#include "clock.hpp"  // now

namespace gx::bench {

/// Where the gradients of a rank that is alone go: nowhere. Aligned as the Trainer's.
class Alone {
public:
    explicit Alone(std::size_t elements) : gradients_(static_cast<std::int64_t>(elements)) {}
    std::span<float> begin() { return gradients_.span(); }
    void ready(std::size_t) {}
    std::span<const float> collect() { return gradients_.span(); }

private:
    AlignedBuffer<float> gradients_;  // as a Trainer's
};

/// Where the gradients of one rank of many go: through a ring, as the Trainer sends them.
template <class Rank>
class Averaged {
public:
    Averaged(Rank& rank, std::size_t elements)
        : pipeline_(rank.stream(), rank.transport(),
                    {.elements = static_cast<std::int64_t>(elements)}, Ring<fp32>()) {}
    std::span<float> begin() { return pipeline_.begin(step_); }
    void ready(std::size_t watermark) { pipeline_.ready(watermark); }
    std::span<const float> collect() {
        const auto reduced = pipeline_.collect(step_++);
        if (!reduced || !reduced->report.complete()) throw Error("the reduction did not complete");
        return reduced->values;
    }

private:
    PipelineOn<Ring<fp32>, Rank> pipeline_;
    std::uint64_t step_ = 0;
};

/// A rank's device and optimizer, and a batch that never changes.
class Training {
public:
    Training(int batch, onednn::Tuning tuning, int rank = 0)
        : Training(gx::graph<ResNet20>(), batch, tuning, rank, ElementType::fp32) {}
    Training(const Graph& graph, int batch, onednn::Tuning tuning, int rank, ElementType compute)
        : device_(graph, {.batch = batch, .rank = rank, .compute = compute}, tuning), sgd_({}) {
        std::vector<float> start(static_cast<std::size_t>(graph.parameter_elements()));
        initial_parameters(graph, 1, start);
        device_.update([&](std::span<float> w) { device_.from_canonical(start, w); });
        sgd_.reserve(elements(), device_.slices(), graph);
        momentum_ = AlignedBuffer<float>(static_cast<std::int64_t>(elements()));
        const Rng random = Rng(1, "images").at(static_cast<std::uint64_t>(rank));
        images_.resize(static_cast<std::size_t>(batch * graph.input.elements()));
        for (std::size_t i = 0; i < images_.size(); ++i) images_[i] = random.normal(i);
        for (int n = 0; n < batch; ++n) labels_.push_back(n * 7 % graph.classes);
    }
    /// Seconds of a step: forward, backward, reduction, update.
    template <class Route>
    double step(Route& route) {
        const double begin = now();
        const int count = static_cast<int>(labels_.size());
        const auto gradients = route.begin();
        loss_ = device_.forward({images_, labels_, count, 0}, Mode::train).loss_sum / count;
        device_.backward(1.0f / static_cast<float>(count), gradients,
                         [&](std::size_t watermark) { route.ready(watermark); });
        const auto mean = route.collect();
        device_.update([&](std::span<float> w) {
            update_in_shares(device_, sgd_,
                             {.parameters = w,
                              .gradients = mean,
                              .state = momentum_.span(),
                              .slices = device_.slices(),
                              .rate = 0.01f,
                              .step = updates_});
        });
        ++updates_;
        return now() - begin;
    }
    [[nodiscard]] std::size_t elements() const { return device_.parameters().size(); }
    [[nodiscard]] std::span<const float> parameters() const { return device_.parameters(); }
    [[nodiscard]] const onednn::Counters& counters() const { return device_.counters(); }
    [[nodiscard]] onednn::MemoryUse memory() const { return device_.memory(); }
    /// Bytes of the images of its batch.
    [[nodiscard]] std::size_t image_bytes() const { return images_.size() * sizeof(float); }
    [[nodiscard]] double loss() const { return loss_; }

private:
    onednn::Device device_;
    Sgd sgd_;
    AlignedBuffer<float> momentum_;
    std::int64_t updates_ = 0;
    std::vector<float> images_;
    std::vector<std::int32_t> labels_;
    double loss_ = 0;
};

/// Two ranks of a world of threads. Each has half the batch, a device of one thread, and a stream
/// that reduces.
class TwoRanks {
public:
    TwoRanks(int batch, onednn::Tuning tuning)
        : thread_([this, batch, tuning] {
              Threads<2, onednn::Device>().run([&](auto& rank) { run(rank, batch / 2, tuning); });
          }) {}
    ~TwoRanks() {
        if (asked_ >= 0) static_cast<void>(order(-1));
        thread_.join();
    }
    /// Seconds of each step, on rank 0's clock.
    std::vector<double> steps(int count) { return order(count); }
    /// Ends the ranks, and says whether they hold the same weights to the last bit.
    [[nodiscard]] bool agree() {
        static_cast<void>(order(-1));
        return weights_[0] == weights_[1];
    }

private:
    std::vector<double> order(int count) {
        asked_ = count;
        meet_.arrive_and_wait();
        meet_.arrive_and_wait();
        return taken_;
    }
    template <class Rank>
    void run(Rank& rank, int batch, onednn::Tuning tuning) {
        try {
            Training training(batch, tuning, rank.rank());
            Averaged<Rank> route(rank, training.elements());
            for (;;) {
                meet_.arrive_and_wait();
                const int count = asked_;
                std::vector<double> all;
                for (int s = 0; s < count; ++s) all.push_back(training.step(route));
                if (rank.rank() == 0) taken_ = all;
                if (count < 0)
                    weights_[rank.rank()].assign(training.parameters().begin(),
                                                 training.parameters().end());
                meet_.arrive_and_wait();
                if (count < 0) return;
            }
        } catch (const std::exception& e) {  // the others wait for this rank: end them all
            std::fprintf(stderr, "gx_bench_step: rank %d: %s\n", rank.rank(), e.what());
            std::_Exit(1);
        }
    }

    std::barrier<> meet_{3};  // the ranks, and who gives orders
    int asked_ = 0;           // steps, or -1: the end; the barrier guards it and what follows
    std::vector<double> taken_{};
    std::vector<float> weights_[2]{};
    std::thread thread_;  // last, so that it starts when all else is made
};

}  // namespace gx::bench

// DeviceLearner: a network, a data set and an optimizer, for elastic training.
#pragma once

#include <algorithm>  // copy
#include <cstdint>    // uint32_t
#include <memory>     // unique_ptr
#include <span>       // samples
#include <vector>     // images

#include <gx/core/device.hpp>            // Device, Batch
#include <gx/core/error.hpp>             // Error
#include <gx/loader/augment.hpp>         // View
#include <gx/loader/in_memory.hpp>       // decode
#include <gx/model/graph.hpp>            // Graph
#include <gx/model/init.hpp>             // initial_parameters, initial_statistics
#include <gx/optimizer/concept.hpp>      // Optimizer
#include <gx/optimizer/update_cost.hpp>  // update_cost_of
#include <gx/sim/world/device.hpp>       // sim::Device, a rank's

namespace gx::sim {

/// A Learner that trains `graph` on `data`, without augmentation, with optimizer O.
///
///     auto make = [&](auto& rank) {
///         return std::make_unique<DeviceLearner<std::remove_cvref_t<decltype(rank)>, Sgd>>(
///             rank, graph, data, {.batch = 8, .seed = 1});
///     };
///
/// Running statistics (batch normalisation) are averaged with the gradient: every forward pass
/// starts from the common ones, what it changes them by is reduced behind the gradient, weighted
/// by samples, and their mean is applied with it. So every update has one state, which a smaller
/// world goes on from. To rounding this is the Trainer's mean at the end of an epoch, because a
/// running mean of means is the mean of running means. A late reducer makes them as late as the
/// gradient; a wire of fp16 rounds the changes and not the statistics.
///
/// Without faults ElasticTraining with it gives the Trainer's weights to the bit, where the
/// Trainer's loss scale is 1 and there are no running statistics; with them, to the order of sums,
/// since buckets begin elsewhere.
/// Errors: throws gx::Error for a loss that is not a number.
template <class Rank, Optimizer O>
class DeviceLearner {
    static_assert(!KeepsScalars<O>,
                  "gx: elastic training keeps an optimizer's vectors, and not its scalars(). "
                  "Fix: use a Trainer, or an optimizer without scalars.");

public:
    struct Options {
        int batch = 1;  ///< most samples of a step: ElasticOptions' batch
        std::uint64_t seed = 1;
        typename O::Options optimizer{};
    };

    DeviceLearner(Rank& rank, const Graph& graph, const Dataset& data, Options o)
        : data_(data),
          table_(gx::detail::loader::normalised_values(data)),
          device_(rank.make_device(graph, {.batch = o.batch,
                                           .seed = o.seed,
                                           .rank = rank.rank(),
                                           .update = update_cost_of<O>()})),
          optimizer_(o.optimizer) {
        optimizer_.reserve(device_->parameters().size(), device_->slices(), graph);
        optimizer_state_.resize(state_vectors<O>() * device_->parameters().size());
        std::vector<float> canonical(static_cast<std::size_t>(graph.parameter_elements()));
        initial_parameters(graph, o.seed, canonical);
        device_->update([&](std::span<float> mine) { device_->from_canonical(canonical, mine); });
        statistics_.resize(static_cast<std::size_t>(graph.statistic_elements()));
        initial_statistics(graph, statistics_);
    }

    /// Elements of the gradient and, after it, of the changes of running statistics.
    [[nodiscard]] std::int64_t elements() const {
        return std::ssize(device_->parameters()) + std::ssize(statistics_);
    }

    void gradient(std::span<const std::uint32_t> samples, float scale, std::span<float> out,
                  GradientsReady ready) {
        const auto elements = static_cast<std::size_t>(data_.shape.elements());
        images_.resize(samples.size() * elements);
        labels_.resize(samples.size());
        for (std::size_t i = 0; i < samples.size(); ++i) {
            gx::detail::loader::decode(data_.pixels.data() + samples[i] * elements,
                                       images_.data() + i * elements, data_.shape, View{},
                                       table_.data());
            labels_[i] = data_.labels[samples[i]];
        }
        std::copy(statistics_.begin(), statistics_.end(), device_->statistics().begin());
        const ForwardReport report = device_->forward({.images = images_,
                                                       .labels = labels_,
                                                       .count = static_cast<int>(samples.size()),
                                                       .draw = draws_++},
                                                      Mode::train);
        if (!report.finite)
            throw Error("the loss is not finite; the first such values are outputs of " +
                        device_->first_non_finite().value_or("the loss") +
                        ". Lower the learning rate or lengthen the warmup.");
        const std::size_t count = device_->parameters().size();
        const float weight = scale * static_cast<float>(samples.size());
        for (std::size_t i = 0; i < statistics_.size(); ++i)
            out[count + i] =  // of no samples there are no statistics
                samples.empty() ? 0 : weight * (device_->statistics()[i] - statistics_[i]);
        device_->backward(scale, out.first(count), ready);
    }
    void apply(std::span<const float> mean, float rate, std::int64_t step) {
        const std::size_t count = device_->parameters().size();
        device_->update([&](std::span<float> parameters) {
            optimizer_.update({.parameters = parameters,
                               .gradients = mean.first(count),
                               .state = optimizer_state_,
                               .slices = device_->slices(),
                               .rate = rate,
                               .step = step});
        });
        for (std::size_t i = 0; i < statistics_.size(); ++i) statistics_[i] += mean[count + i];
    }
    /// Parameters, then the optimizer's state, in the device's layout, then running statistics.
    [[nodiscard]] std::vector<float> state() {
        const auto mine = device_->parameters();
        std::vector<float> all(mine.begin(), mine.end());
        const auto& kept = optimizer_state_;
        all.insert(all.end(), kept.begin(), kept.end());
        all.insert(all.end(), statistics_.begin(), statistics_.end());
        return all;
    }
    void restore(std::span<const float> state) {
        const std::size_t count = device_->parameters().size();
        device_->update(
            [&](std::span<float> mine) { std::copy_n(state.begin(), count, mine.begin()); });
        const auto last = state.last(statistics_.size());
        std::copy(last.begin(), last.end(), statistics_.begin());
        const auto kept = state.subspan(count, state.size() - count - last.size());
        std::copy(kept.begin(), kept.end(), optimizer_state_.begin());
    }

private:
    const Dataset& data_;
    std::vector<float> table_;
    std::unique_ptr<typename Rank::Device> device_;
    O optimizer_;
    std::vector<float> optimizer_state_{};
    std::vector<float> statistics_{};  // common to all ranks, as of the last update
    std::vector<float> images_{};
    std::vector<std::int32_t> labels_{};
    std::uint64_t draws_ = 0;
};

}  // namespace gx::sim

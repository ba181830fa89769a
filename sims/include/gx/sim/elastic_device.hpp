// DeviceLearner: a network, a data set and an optimizer, for elastic training.
#pragma once

#include <algorithm>  // copy
#include <cstdint>    // uint32_t
#include <memory>     // unique_ptr
#include <span>       // samples
#include <vector>     // images

#include <gx/core/device.hpp>        // Device, Batch
#include <gx/core/error.hpp>         // Error
#include <gx/loader/augment.hpp>     // View
#include <gx/loader/in_memory.hpp>   // decode
#include <gx/model/graph.hpp>        // Graph
#include <gx/model/init.hpp>         // initial_parameters
#include <gx/optimizer/concept.hpp>  // Optimizer

namespace gx::sim {

/// A Learner: `Rank`'s device trains `graph` on the samples of `data`, not augmented, with O.
///
///     auto make = [&](auto& rank) {
///         return std::make_unique<DeviceLearner<std::remove_cvref_t<decltype(rank)>, Sgd>>(
///             rank, graph, data, {.batch = 8, .seed = 1});
///     };
///
/// Without faults ElasticTraining with it gives the Trainer's weights to the bit, where the
/// Trainer's loss scale is 1.
/// Errors: throws gx::Error for a graph with running statistics (batch normalisation): they differ
///         between ranks inside an epoch, and so have no common state to go on from; and for a
///         loss that is not a number.
template <class Rank, Optimizer O>
class DeviceLearner {
public:
    struct Options {
        int batch = 1;  ///< most samples of a step: ElasticOptions' batch
        std::uint64_t seed = 1;
        typename O::Options optimizer{};
    };

    DeviceLearner(Rank& rank, const Graph& graph, const Dataset& data, Options o)
        : data_(data), table_(gx::detail::loader::normalised_values(data)),
          device_(rank.make_device(graph,
                                   {.batch = o.batch, .seed = o.seed, .rank = rank.rank()})),
          optimizer_(o.optimizer) {
        if (graph.statistic_elements() > 0)
            throw Error("elastic training: '" + std::string(graph.name.view()) +
                        "' has running statistics (batch normalisation), which differ between "
                        "ranks inside an epoch: train a network without them");
        optimizer_.reserve(device_->parameters().size(), device_->slices(), graph);
        std::vector<float> canonical(static_cast<std::size_t>(graph.parameter_elements()));
        initial_parameters(graph, o.seed, canonical);
        device_->update([&](std::span<float> mine) { device_->from_canonical(canonical, mine); });
    }

    [[nodiscard]] std::int64_t elements() const { return std::ssize(device_->parameters()); }

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
        const ForwardReport report =
            device_->forward({.images = images_, .labels = labels_,
                              .count = static_cast<int>(samples.size()), .draw = draws_++},
                             Mode::train);
        if (!report.finite)
            throw Error("the loss is not a number; the first values that are not come out of " +
                        device_->first_non_finite().value_or("the loss") +
                        ". Lower the learning rate or lengthen the warmup.");
        device_->backward(scale, out, ready);
    }
    void apply(std::span<const float> mean, float rate) {
        device_->update([&](std::span<float> parameters) {
            optimizer_.update(parameters, mean, rate, 1.0f);
        });
    }
    /// Parameters, then the optimizer's state, in the device's layout.
    [[nodiscard]] std::vector<float> state() {
        const auto mine = device_->parameters();
        std::vector<float> all(mine.begin(), mine.end());
        const auto kept = optimizer_.state();
        all.insert(all.end(), kept.begin(), kept.end());
        return all;
    }
    void restore(std::span<const float> state) {
        const std::size_t count = device_->parameters().size();
        device_->update([&](std::span<float> mine) {
            std::copy_n(state.begin(), count, mine.begin());
        });
        const auto kept = state.subspan(count);
        std::copy(kept.begin(), kept.end(), optimizer_.state().begin());
    }

private:
    const Dataset& data_;
    std::vector<float> table_;
    std::unique_ptr<typename Rank::Device> device_;
    O optimizer_;
    std::vector<float> images_{};
    std::vector<std::int32_t> labels_{};
    std::uint64_t draws_ = 0;
};

}  // namespace gx::sim

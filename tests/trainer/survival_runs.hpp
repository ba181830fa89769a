// Runs of several phases that lose ranks, on devices and on threads.
#pragma once

#include <gtest/gtest.h>

#include <gx/model/layers.hpp>                    // Network
#include <gx/optimizer/adamw.hpp>                 // AdamW
#include <gx/reducer/bucketed.hpp>                // Bucketed
#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>              // MultiRing
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/scheduler/linear_scaling.hpp>        // LinearScaling
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/top_k/reducer.hpp>                   // TopK: settles its residuals
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <trainer/losing.hpp>                     // Scripted, outcome
#include <trainer/small.hpp>                      // images

namespace testing_support::surviving {

using gx::fp16;
using gx::fp32;
using Rate = gx::LinearScaling<gx::Poly<2>>;

/// Takes images of any size, and has running statistics.
struct Pooled : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm,
                            gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "Pooled";
};
inline constexpr int images_of_epoch = 37;
inline gx::Split data() { return numbered_at_any_size(images(images_of_epoch)); }

template <class R, class O>
struct Composed {
    using Devices = gx::Trainer<Pooled, R, Rate, O, gx::ContinueOnSurvivors>;
    using Hosts = gx::Trainer<Pooled, Departing<R>, Rate, O, gx::ContinueOnSurvivors>;
};
template <class T>
typename T::Options options() {
    typename T::Options o;
    o.epochs = 3;
    o.phases = {{0, 2, 4}, {1, 3, 6}, {2, 1, 5}};
    o.seed = 7;
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    return o;
}
template <class T>
Outcome outcome(auto& world, typename T::Options o) {
    return testing_support::outcome<T, Pooled>(world, data(), o, true);
}
inline void expect_same(const Outcome& far, const Outcome& near) {
    expect_same_learning(far.record, near.record);
    expect_same_state(far, near);
    EXPECT_EQ(far.end.loss_scale.scale, near.end.loss_scale.scale);
    EXPECT_EQ(std::ssize(far.seen), images_of_epoch);
    for (const auto& [image, times] : far.seen) EXPECT_EQ(times, 3) << image;
}

using Compositions =
    ::testing::Types<Composed<gx::Ring<fp32>, gx::Sgd>,
                     Composed<gx::Bucketed<gx::Ring<fp32>, 64>, gx::AdamW>,
                     Composed<gx::DoubleBuffered<gx::MultiRing<2, fp16>>, gx::AdamW>,
                     Composed<gx::DoubleBuffered<gx::DoubleBuffered<gx::Ring<fp32>>>, gx::Sgd>,
                     Composed<gx::Bucketed<gx::TopK, 64>, gx::Sgd>,
                     Composed<gx::DoubleBuffered<gx::DoubleBuffered<gx::TopK>>, gx::AdamW>>;

}  // namespace testing_support::surviving

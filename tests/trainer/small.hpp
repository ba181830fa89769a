// Small training runs that several tests share: images, networks, the bits of a run.
#pragma once

#include <cmath>        // isnan
#include <string_view>  // name

#include <gtest/gtest.h>

#include <gx/threads/threads.hpp>     // ThreadWorld
#include <gx/loader/synthetic.hpp>    // synthetic
#include <gx/model/mlp.hpp>           // Mlp
#include <gx/reference/device.hpp>    // Device
#include <gx/scheduler/constant.hpp>  // Constant
#include <gx/trainer/record.hpp>      // RunRecord

#include <support/files.hpp>  // Folder, error_of, holds

namespace testing_support {

using Net = gx::Mlp<5>;

/// Parameters of every role: weights of a convolution and of a linear layer, biases, batch norm.
struct EveryRole {
    static constexpr std::string_view name = "EveryRole";
    static constexpr gx::ImageShape input{1, 4, 4};
    static constexpr int classes = 3;
    static constexpr int describe(gx::GraphBuilder& b, int x) {
        x = b.conv2d(x, {.channels = 2, .window = gx::Window::square(3, 1, 1)}, "conv");
        x = b.relu(b.batch_norm(x, {}, "norm"), "relu");
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};
/// The same with dropout before the last layer.
struct EveryRoleWithDropout {
    static constexpr std::string_view name = "EveryRoleWithDropout";
    static constexpr gx::ImageShape input{1, 4, 4};
    static constexpr int classes = 3;
    static constexpr int describe(gx::GraphBuilder& b, int x) {
        x = b.conv2d(x, {.channels = 2, .window = gx::Window::square(3, 1, 1)}, "conv");
        x = b.dropout(b.relu(b.batch_norm(x, {}, "norm"), "relu"), 0.25, "drop");
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};
using Threads = gx::ThreadWorld<gx::reference::Device>;

/// Images of 4 x 4 pixels in three classes.
inline gx::Split images(std::int64_t train = 40, std::int64_t test = 12) {
    return gx::synthetic({.shape = {1, 4, 4},
                          .classes = 3,
                          .train_count = train,
                          .test_count = test,
                          .noise = 80,
                          .seed = 5});
}

/// `ranks` machines of one rank each, as gx::sim::ethernet_10g has them.
template <class Device = gx::reference::Device>
gx::ThreadWorld<Device> threads(int ranks) {
    return gx::ThreadWorld<Device>({.placement = {ranks, 1}});
}

/// Equal, or both no number: the loss of a step of which no survivor had an image, of a test that
/// was not made.
inline void expect_same(double a, double b) {
    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << a << " and " << b;
}

/// What a run learnt, bit for bit; its times left out.
inline void expect_same_learning(const gx::RunRecord& a, const gx::RunRecord& b) {
    EXPECT_EQ(a.weights_hash, b.weights_hash);
    EXPECT_EQ(a.skipped_steps, b.skipped_steps);
    ASSERT_EQ(a.steps.size(), b.steps.size());
    for (std::size_t i = 0; i < a.steps.size(); ++i) {
        EXPECT_EQ(a.steps[i].step, b.steps[i].step);
        expect_same(a.steps[i].loss, b.steps[i].loss);
        EXPECT_EQ(a.steps[i].rate, b.steps[i].rate);
        EXPECT_EQ(a.steps[i].loss_scale, b.steps[i].loss_scale);
        EXPECT_EQ(a.steps[i].skipped, b.steps[i].skipped);
    }
    ASSERT_EQ(a.epochs.size(), b.epochs.size());
    for (std::size_t i = 0; i < a.epochs.size(); ++i) {
        EXPECT_EQ(a.epochs[i].epoch, b.epochs[i].epoch);
        EXPECT_EQ(a.epochs[i].step, b.epochs[i].step);
        EXPECT_EQ(a.epochs[i].train_loss, b.epochs[i].train_loss);
        EXPECT_EQ(a.epochs[i].train_accuracy_pct, b.epochs[i].train_accuracy_pct);
        expect_same(a.epochs[i].test_loss, b.epochs[i].test_loss);
        expect_same(a.epochs[i].test_accuracy_pct, b.epochs[i].test_accuracy_pct);
        expect_same(a.epochs[i].test_top5_accuracy_pct, b.epochs[i].test_top5_accuracy_pct);
    }
}

}  // namespace testing_support

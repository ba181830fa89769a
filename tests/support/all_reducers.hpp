// AllReducers: those of the core and of every plugin of this build whose order of sums is gx's, for
// worlds that prove them all; DeviceReducers: without plugins that are HOST_ONLY. Needs
// gx_reducer_plugins.
#pragma once

#include <concepts>  // same_as

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/reducer_list.hpp>

#include <plugin_reducers.hpp>  // PluginReducers, DevicePluginReducers

namespace testing_support {

using CoreReducers = gx::testing::ReducerList<
    gx::Ring<gx::fp32>, gx::Ring<gx::fp16>, gx::Ring<gx::bf16>, gx::MultiRing<2, gx::fp16>,
    gx::MultiRing<4, gx::fp16>, gx::Bucketed<gx::Ring<gx::fp16>, 64>,
    gx::DoubleBuffered<gx::MultiRing<2, gx::fp16>>,
    gx::DoubleBuffered<gx::DoubleBuffered<gx::Bucketed<gx::Ring<gx::fp32>, 256>>>>;
using AllReducers = gx::testing::JoinedLists<CoreReducers, PluginReducers>;
using DeviceReducers = gx::testing::JoinedLists<CoreReducers, DevicePluginReducers>;
// As the lists of a build without plugins are.
static_assert(std::same_as<gx::testing::JoinedLists<>, gx::testing::ReducerList<>>);

}  // namespace testing_support

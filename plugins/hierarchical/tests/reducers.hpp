// The reducers of this plugin that the conformance kit proves in every memory. SharedMemory as a
// level, which shares it where gradients lie in the host's: reducer_test.cpp.
#pragma once

#include <gx/hierarchical/levels.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::Hierarchical<gx::fp32>, gx::Hierarchical<gx::fp16>,
                             gx::DoubleBuffered<gx::Hierarchical<gx::bf16>>,
                             gx::Hierarchical<gx::Ring<gx::fp32>, gx::Ring<gx::fp16>>>;

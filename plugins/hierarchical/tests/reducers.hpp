// The reducers of this plugin that the conformance kit proves.
#pragma once

#include <gx/hierarchical/levels.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::Hierarchical<gx::fp32>, gx::Hierarchical<gx::fp16>,
                             gx::DoubleBuffered<gx::Hierarchical<gx::bf16>>,
                             gx::Hierarchical<gx::SharedMemory<>, gx::Ring<gx::fp16>>>;

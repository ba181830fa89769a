// The reducers of this plugin that the conformance kit proves.
#pragma once

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::SharedMemory<gx::fp32>, gx::SharedMemory<gx::fp16>,
                             gx::SharedMemory<gx::bf16>,
                             gx::DoubleBuffered<gx::Bucketed<gx::SharedMemory<gx::fp32>, 256>>>;

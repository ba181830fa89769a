// The reducers of this plugin that conformance runs.
#pragma once

#include <gx/quantized/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::Quantized<8>, gx::Quantized<4>,
                             gx::DoubleBuffered<gx::Bucketed<gx::Quantized<8>, 4096>>>;

// The reducers of this plugin that the conformance kit proves.
#pragma once

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/testing/reducer_list.hpp>
#include <gx/top_k/reducer.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::TopK, gx::DoubleBuffered<gx::Bucketed<gx::TopK, 64>>>;

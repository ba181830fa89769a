// The reducers of this plugin that the conformance kit proves: without a Trainer.
#pragma once

#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::LocalSgd<gx::Ring<gx::fp32>, 4>,
                             gx::LocalSgd<gx::Bucketed<gx::Ring<gx::fp16>, 256>, 1>>;

// The reducers of this plugin that the conformance kit proves: without a Trainer.
#pragma once

#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/testing/reducer_list.hpp>

using ReducersUnderTest =
    gx::testing::ReducerList<gx::Sharded<gx::Ring<gx::fp32>>, gx::Sharded<gx::Ring<gx::fp16>>,
                             gx::Sharded<gx::Bucketed<gx::MultiRing<3, gx::bf16>, 512>>>;

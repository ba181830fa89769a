// expect: gx: this reducer works on the host's memory only
#include <gx/hierarchical/reducer.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/far/transport.hpp>

struct OfTheHost : gx::archetype::Reducer {};
using Levels = gx::Hierarchical<OfTheHost, gx::Ring<>>;

void ready(gx::Pipeline<Levels, gx::testing::FarQueue, gx::testing::FarTransport>& p) {
    p.ready(0, {});
}

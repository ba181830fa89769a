// expect: gx: this reducer works on the host's memory only
#include <gx/reducer/pipeline.hpp>
#include <gx/testing/far/transport.hpp>

struct OfTheHost : gx::archetype::Reducer {};

void ready(gx::Pipeline<OfTheHost, gx::testing::FarQueue, gx::testing::FarTransport>& p) {
    p.ready(0, {});
}

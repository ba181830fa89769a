// expect: gx: a collective whose ranks own chunks has no 'int owned_chunk(int rank) const'
#include <gx/collective/exchange.hpp>

struct Idle {
    static constexpr gx::Promise promise = gx::Promise::all_gather;
    [[nodiscard]] int ranks() const { return 1; }
    [[nodiscard]] int chunks() const { return 1; }
    [[nodiscard]] int steps() const { return 0; }
    [[nodiscard]] gx::Exchange exchange(int, int) const { return {}; }
};

static_assert(gx::explain_promise<Idle>());

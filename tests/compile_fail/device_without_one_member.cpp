// expect: gx: not a Device: no 'ForwardReport forward(const Batch&, Mode)'
// later: gx: not a Device: no 'void backward(float scale, span<float> gradients, GradientsReady)'
// later: gx: not a Device: no 'span<const float> parameters() const'
// later: gx: not a Device: no 'void update(FunctionRef<void(span<float>)> change)'
// later: gx: not a Device: no 'span<float> statistics()'
// later: gx: not a Device: no 'void to_canonical(span<const float> mine
// later: gx: not a Device: no 'optional<string> first_non_finite() const'
#include <gx/core/device.hpp>

using Least = gx::archetype::Device;
struct NoForward : Least {
    void forward() = delete;
};
struct NoBackward : Least {
    void backward() = delete;
};
struct NoSlices : Least {
    void slices() = delete;
};
struct NoUpdate : Least {
    void update() = delete;
};
struct NoStatistics : Least {
    void statistics() = delete;
};
struct OneWay : Least {
    void from_canonical() = delete;
};
struct NoBlame : Least {
    void first_non_finite() = delete;
};
static_assert(gx::explain_device<NoForward>());
static_assert(gx::explain_device<NoBackward>());
static_assert(gx::explain_device<NoSlices>());
static_assert(gx::explain_device<NoUpdate>());
static_assert(gx::explain_device<NoStatistics>());
static_assert(gx::explain_device<OneWay>());
static_assert(gx::explain_device<NoBlame>());

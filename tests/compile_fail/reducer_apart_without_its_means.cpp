// expect: gx: not a Reducer: its replicas differ between means
#include <gx/reducer/ring.hpp>

using namespace gx;

struct Apart : Ring<fp32> {
    static constexpr UpdateOwnership owns_update{.apart = true};
    std::vector<ChunkRange> updated_by(int rank) const;
    void own_update(int rank, std::span<float> state);
    ReduceReport updated(Transport auto& link, const OwnedUpdate& made);
};

static_assert(explain_reducer<Apart>());

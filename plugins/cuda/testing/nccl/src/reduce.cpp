// Sums of collectives, in an order that NCCL does not promise: drawn anew for each few elements.
// An average of floats is the sum of what each rank has times 1 / ranks, rounded to the element;
// one of integers is a sum that is divided (NCCL, src/enqueue.cc, hostToDevRedOp).
#include <algorithm>  // min, swap
#include <concepts>   // floating_point
#include <cstring>    // memcpy
#include <numeric>    // iota

#include <gx/core/element.hpp>  // fp16, bf16

#include "nccl_state.hpp"

namespace gx::nccl_testing {

namespace {

template <class T>
struct Plain {
    using storage = T;
    using value = T;
    static value decode(storage s) { return s; }
    static storage encode(value v) { return v; }
};
template <class E>
struct Narrow {
    using storage = typename E::storage;
    using value = float;
    static value decode(storage s) { return E::decode(s); }
    static storage encode(value v) { return E::encode(v); }
};

template <class V>
V combined(V a, V b, ncclRedOp_t op) {
    switch (op) {
        case ncclProd: return static_cast<V>(a * b);
        case ncclMax: return std::max(a, b);
        case ncclMin: return std::min(a, b);
        default: return static_cast<V>(a + b);
    }
}

template <class E>
std::vector<std::byte> reduce_as(const std::vector<const std::vector<std::byte>*>& rows,
                                 ncclRedOp_t op,
                                 const std::function<std::uint64_t(std::uint64_t)>& draw) {
    using S = typename E::storage;
    using V = typename E::value;
    const auto rounded = [](V v) { return E::decode(E::encode(v)); };
    const bool scales = op == ncclAvg && std::floating_point<V>;
    const V factor = scales ? rounded(V{1} / static_cast<V>(rows.size())) : V{1};
    std::vector<std::byte> result(rows[0]->size());
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t count = result.size() / sizeof(S);
    std::size_t slice_end = 0;
    bool rounds_each = false;  // where an element is narrower than the sum
    for (std::size_t i = 0; i < count; ++i) {
        if (i == slice_end) {
            slice_end = i + 1 + draw(16);
            rounds_each = draw(2) == 0;
            for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[draw(k)]);
        }
        const auto at = [&](std::size_t row) {
            S s;
            std::memcpy(&s, rows[row]->data() + i * sizeof(S), sizeof(S));
            const V v = E::decode(s);
            if (!scales) return v;
            const V scaled = static_cast<V>(v * factor);
            return rounds_each ? rounded(scaled) : scaled;
        };
        auto sum = at(order[0]);
        for (std::size_t k = 1; k < order.size(); ++k) {
            sum = combined(sum, at(order[k]), op);
            if (rounds_each) sum = rounded(sum);
        }
        if (op == ncclAvg && !scales) sum = static_cast<V>(sum / static_cast<V>(rows.size()));
        const S s = E::encode(sum);
        std::memcpy(result.data() + i * sizeof(S), &s, sizeof(S));
    }
    return result;
}

}  // namespace

std::vector<std::byte> reduce(const std::vector<const std::vector<std::byte>*>& rows,
                              ncclDataType_t type, ncclRedOp_t op,
                              const std::function<std::uint64_t(std::uint64_t)>& draw) {
    switch (type) {
        case ncclInt8: return reduce_as<Plain<std::int8_t>>(rows, op, draw);
        case ncclUint8: return reduce_as<Plain<std::uint8_t>>(rows, op, draw);
        case ncclInt32: return reduce_as<Plain<std::int32_t>>(rows, op, draw);
        case ncclUint32: return reduce_as<Plain<std::uint32_t>>(rows, op, draw);
        case ncclInt64: return reduce_as<Plain<std::int64_t>>(rows, op, draw);
        case ncclUint64: return reduce_as<Plain<std::uint64_t>>(rows, op, draw);
        case ncclFloat16: return reduce_as<Narrow<fp16>>(rows, op, draw);
        case ncclBfloat16: return reduce_as<Narrow<bf16>>(rows, op, draw);
        case ncclFloat32: return reduce_as<Plain<float>>(rows, op, draw);
        case ncclFloat64: return reduce_as<Plain<double>>(rows, op, draw);
        default: return {};
    }
}

// ---- Types and ranges ------------------------------------------------------------------------

std::size_t bytes_of(ncclDataType_t type) {
    switch (type) {
        case ncclInt8:
        case ncclUint8:
        case ncclFloat8e4m3:
        case ncclFloat8e5m2: return 1;
        case ncclFloat16:
        case ncclBfloat16: return 2;
        case ncclInt32:
        case ncclUint32:
        case ncclFloat32: return 4;
        case ncclInt64:
        case ncclUint64:
        case ncclFloat64: return 8;
        default: return 0;
    }
}

std::string name_of(ncclDataType_t type) {
    constexpr const char* names[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                     "ncclUint32",   "ncclInt64",      "ncclUint64",
                                     "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                     "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
    const auto i = static_cast<std::size_t>(type);
    return i < std::size(names) ? names[i] : "type " + std::to_string(i);
}

std::string name_of(ncclRedOp_t op) {
    constexpr const char* names[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};
    const auto i = static_cast<std::size_t>(op);
    return i < std::size(names) ? names[i] : "operation " + std::to_string(i);
}

std::string name_of(Part::Kind kind) {
    constexpr const char* names[] = {"ncclSend",      "ncclRecv",      "ncclAllReduce",
                                     "ncclBroadcast", "ncclAllGather", "ncclReduceScatter"};
    return names[static_cast<std::size_t>(kind)];
}

Use read_of(const Part& p, int ranks) {
    std::size_t count = p.in == nullptr ? 0 : p.count;
    if (p.kind == Part::Kind::reduce_scatter) count *= static_cast<std::size_t>(ranks);
    return {static_cast<const std::byte*>(p.in), count * bytes_of(p.type), false};
}

Use write_of(const Part& p, int ranks) {
    std::size_t count = p.out == nullptr ? 0 : p.count;
    if (p.kind == Part::Kind::all_gather) count *= static_cast<std::size_t>(ranks);
    return {static_cast<const std::byte*>(p.out), count * bytes_of(p.type), true};
}

}  // namespace gx::nccl_testing

// is_rdma: whether a network moves gradients past the kernel, from the words for it.
#pragma once

#include <string>       // text
#include <string_view>  // words

#include <gx/sim/predict/units.hpp>  // lower, has

namespace gx::sim::predict {

/// Whether `word` stands in `text` apart from other letters and digits.
[[nodiscard]] inline bool has_word(std::string_view text, std::string_view word) {
    const auto letter = [&](std::size_t i) {
        return i < text.size() && (('a' <= text[i] && text[i] <= 'z') ||
                                   ('0' <= text[i] && text[i] <= '9'));
    };
    for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1))
        if ((at == 0 || !letter(at - 1)) && !letter(at + word.size())) return true;
    return false;
}

/// Whether messages go by RDMA. What is said decides: TCP also where it runs over InfiniBand, then
/// networks that have RDMA, then Ethernet and what uses sockets. Where nothing is said: networks of
/// more than 40 Gb/s are bought for it. `transport` is in lower case.
[[nodiscard]] inline bool is_rdma(std::string_view transport, double gbps) {
    for (const char* word : {"tcp", "ipoib", "socket"})
        if (has(transport, word)) return false;
    for (const char* word : {"infiniband", "rdma", "roce", "omni", "aries", "slingshot", "gemini",
                             "connectx", "mellanox", "gpudirect"})
        if (has(transport, word)) return true;
    for (const char* word : {"ib", "efa", "opa", "verbs", "sharp", "qdr", "fdr", "edr", "hdr",
                             "ndr", "xdr"})
        if (has_word(transport, word)) return true;
    for (const char* word : {"ethernet", "gbe", "grpc", "gloo"})
        if (has(transport, word)) return false;
    return !has_word(transport, "ena") && gbps > 40;
}
[[nodiscard]] inline bool is_omni_path(std::string_view transport) {
    return has(transport, "omni") || has_word(transport, "opa");
}

}  // namespace gx::sim::predict

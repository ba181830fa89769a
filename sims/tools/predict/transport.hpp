// is_rdma: whether a network bypasses the kernel, from the words for it.
#pragma once

#include <string_view>

namespace gx::tools::predict {

/// Whether messages go by RDMA. What is said decides: TCP also where it runs over InfiniBand, then
/// networks that have RDMA, then Ethernet and what uses sockets. Where nothing is said: networks of
/// more than 40 Gb/s are bought for it. `transport` is in lower case.
[[nodiscard]] bool is_rdma(std::string_view transport, double gbps);

/// Whether the network is Omni-Path.
[[nodiscard]] bool is_omni_path(std::string_view transport);

}  // namespace gx::tools::predict

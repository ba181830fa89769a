// GX_ADDRESS_SANITIZER, GX_THREAD_SANITIZER: 1 where a program is compiled with it, else 0.
#pragma once

#if defined(__SANITIZE_ADDRESS__)  // g++
#define GX_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define GX_THREAD_SANITIZER 1
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer)
#define GX_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define GX_THREAD_SANITIZER 1
#endif
#endif
#if !defined(GX_ADDRESS_SANITIZER)
#define GX_ADDRESS_SANITIZER 0
#endif
#if !defined(GX_THREAD_SANITIZER)
#define GX_THREAD_SANITIZER 0
#endif

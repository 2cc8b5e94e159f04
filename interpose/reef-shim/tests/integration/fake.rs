//! The fake driver by itself: it refuses what a driver refuses.

use crate::common::{self, Driver, call, fake_copy};

#[test]
fn device_that_is_not_there_is_refused() {
    const INVALID_DEVICE: u32 = 101;
    let file = fake_copy("without-devices");
    let driver = Driver::open(&file);
    std::fs::remove_file(file).unwrap();
    let mut words = [0_usize; 4];
    let to = words.as_mut_ptr();
    assert_eq!(call!(driver, cuInit(0)), 0);
    for device in [1, -1, i32::MIN, i32::MAX] {
        let codes = [
            call!(driver, cuDeviceGet(to, device)),
            call!(driver, cuDeviceGetName(to, 8, device)),
            call!(driver, cuDeviceGetUuid_v2(to, device)),
            call!(driver, cuDeviceTotalMem_v2(to, device)),
            call!(driver, cuDeviceGetAttribute(to, 16, device)),
            call!(driver, cuDeviceGetMemPool(to, device)),
            call!(driver, cuDeviceGetDefaultMemPool(to, device)),
            call!(driver, cuDeviceGetGraphMemAttribute(device, 0, to)),
            call!(driver, cuDeviceGraphMemTrim(device)),
            call!(driver, cuDevicePrimaryCtxRetain(to, device)),
            call!(driver, cuDevicePrimaryCtxRelease_v2(device)),
            call!(driver, cuDevicePrimaryCtxReset_v2(device)),
            call!(driver, cuDevicePrimaryCtxGetState(device, to, to)),
            call!(driver, cuCtxCreate_v2(to, 0, device)),
            call!(driver, cuGreenCtxCreate(to, 0, device, 0)),
        ];
        assert_eq!(codes, [INVALID_DEVICE; 15], "device {device}");
    }
    assert_eq!(words, [0; 4], "nothing is written");
}

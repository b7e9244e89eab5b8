//! Boots guests again if they do not come up.

use super::LabError;
use super::shared::say;

/// The most attempts to boot a guest that dies or hangs while booting.
const BOOTS: u32 = 3;

/// Boots again if the guest died or hung while booting, and reports that. Kernels patch their own
/// code while they boot, which an emulator with several threads occasionally gets wrong.
pub(super) fn boot_again<T>(mut boot: impl FnMut() -> Result<T, LabError>) -> Result<T, LabError> {
    for _ in 1..BOOTS {
        match boot() {
            Err(error) if error.is_not_booted() => {
                say(&format!("lab: booting once more: {error}"));
            }
            done => return done,
        }
    }
    boot()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_does_not_come_up_is_booted_again_a_few_times() {
        // The boot that succeeds; the expected result and number of boots.
        for (alive_at, expected) in [(1, (true, 1)), (3, (true, 3)), (4, (false, 3))] {
            let mut boots = 0;
            let booted = boot_again(|| {
                boots += 1;
                match boots == alive_at {
                    true => Ok(()),
                    false => Err(LabError::new("the guest is gone").while_booting()),
                }
            });
            assert_eq!((booted.is_ok(), boots), expected);
        }
    }

    #[test]
    fn a_permanent_error_is_not_retried() {
        for error in [LabError::new("MTU 0"), LabError::poor_machine("no kernel")] {
            let mut boots = 0;
            let failed = boot_again::<()>(|| {
                boots += 1;
                Err(error.clone())
            });
            assert!(failed.is_err());
            assert_eq!(boots, 1);
        }
    }
}
